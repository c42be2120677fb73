"""Starts the cluster monitor: `python -m services.cluster_monitor`."""

from services._kit.runtime.service_wiring import Program
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings

main = Program(ClusterMonitor, MonitorSettings)

if __name__ == "__main__":
    main.exit()

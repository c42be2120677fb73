"""Starts the cluster monitor: `python -m services.cluster_monitor`."""

from services._kit.runtime.service_wiring import log_reader
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings

main = log_reader(ClusterMonitor, MonitorSettings)

if __name__ == "__main__":
    main.exit()

"""Starts the cluster monitor: `python -m services.cluster_monitor`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(ClusterMonitor, MonitorSettings)


if __name__ == "__main__":
    sys.exit(main())

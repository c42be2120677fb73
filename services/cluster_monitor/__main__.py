"""Starts the cluster monitor: `python -m services.cluster_monitor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(ClusterMonitor, MonitorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

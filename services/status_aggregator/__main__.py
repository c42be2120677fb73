"""Starts the status aggregator: `python -m services.status_aggregator`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(StatusAggregator, AggregatorSettings)


if __name__ == "__main__":
    sys.exit(main())

"""Starts the status aggregator: `python -m services.status_aggregator`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(StatusAggregator, AggregatorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

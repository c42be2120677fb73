"""Starts the status aggregator: `python -m services.status_aggregator`."""

from services._kit.runtime.service_wiring import Program
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings

main = Program(StatusAggregator, AggregatorSettings)

if __name__ == "__main__":
    main.exit()

"""Starts the status aggregator: `python -m services.status_aggregator`."""

from services._kit.runtime.service_wiring import log_reader
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings

main = log_reader(StatusAggregator, AggregatorSettings)

if __name__ == "__main__":
    main.exit()

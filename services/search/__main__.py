"""Starts search: `python -m services.search`."""

from services._kit.runtime.service_wiring import log_reader
from services.search.app import Search
from services.search.settings import SearchSettings

main = log_reader(Search, SearchSettings)

if __name__ == "__main__":
    main.exit()

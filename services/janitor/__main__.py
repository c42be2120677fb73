"""Starts the janitor: `python -m services.janitor`."""

from services._kit.runtime.service_wiring import log_reader
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings

main = log_reader(Janitor, JanitorSettings)

if __name__ == "__main__":
    main.exit()

"""Starts the descheduler: `python -m services.descheduler`."""

from services._kit.runtime.service_wiring import log_reader
from services.descheduler.app import Descheduler
from services.descheduler.settings import DeschedulerSettings

main = log_reader(Descheduler, DeschedulerSettings)

if __name__ == "__main__":
    main.exit()

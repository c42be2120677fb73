"""Starts the descheduler: `python -m services.descheduler`."""

from services._kit.runtime.service_wiring import Program
from services.descheduler.app import Descheduler
from services.descheduler.settings import DeschedulerSettings

main = Program(Descheduler, DeschedulerSettings)

if __name__ == "__main__":
    main.exit()

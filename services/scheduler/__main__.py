"""Starts the scheduler: `python -m services.scheduler`."""

from services._kit.runtime.service_wiring import log_reader
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings

main = log_reader(Scheduler, SchedulerSettings)

if __name__ == "__main__":
    main.exit()

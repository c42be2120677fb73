"""Starts the scheduler: `python -m services.scheduler`."""

from services._kit.runtime.service_wiring import Program
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings

main = Program(Scheduler, SchedulerSettings)

if __name__ == "__main__":
    main.exit()

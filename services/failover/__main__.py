"""Starts the failover service: `python -m services.failover`."""

from services._kit.runtime.service_wiring import Program
from services.failover.app import Failover
from services.failover.settings import FailoverSettings

main = Program(Failover, FailoverSettings)

if __name__ == "__main__":
    main.exit()

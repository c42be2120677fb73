"""Starts the failover service: `python -m services.failover`."""

from services._kit.runtime.service_wiring import log_reader
from services.failover.app import Failover
from services.failover.settings import FailoverSettings

main = log_reader(Failover, FailoverSettings)

if __name__ == "__main__":
    main.exit()

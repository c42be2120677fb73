"""Starts the autoscaler: `python -m services.autoscaler`."""

from services._kit.runtime.service_wiring import log_reader
from services.autoscaler.app import Autoscaler
from services.autoscaler.settings import AutoscalerSettings

main = log_reader(Autoscaler, AutoscalerSettings)

if __name__ == "__main__":
    main.exit()

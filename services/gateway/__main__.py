"""Starts the gateway: `python -m services.gateway`."""

from services._kit.runtime.service_wiring import log_reader
from services.gateway.app import Gateway
from services.gateway.settings import GatewaySettings

main = log_reader(Gateway, GatewaySettings)

if __name__ == "__main__":
    main.exit()

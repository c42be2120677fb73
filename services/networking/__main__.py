"""Starts the networking service: `python -m services.networking`."""

from services._kit.runtime.service_wiring import log_reader
from services.networking.app import Networking
from services.networking.settings import NetworkingSettings

main = log_reader(Networking, NetworkingSettings)

if __name__ == "__main__":
    main.exit()

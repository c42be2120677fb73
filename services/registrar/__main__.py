"""Starts the registrar: `python -m services.registrar`."""

from services._kit.runtime.service_wiring import log_reader
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings

main = log_reader(Registrar, RegistrarSettings)

if __name__ == "__main__":
    main.exit()

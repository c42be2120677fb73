"""Starts the registrar: `python -m services.registrar`."""

from services._kit.runtime.service_wiring import Program
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings

main = Program(Registrar, RegistrarSettings)

if __name__ == "__main__":
    main.exit()

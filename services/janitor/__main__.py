"""Starts the janitor: `python -m services.janitor`."""

from services._kit.runtime.service_wiring import Program
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings

main = Program(Janitor, JanitorSettings)

if __name__ == "__main__":
    main.exit()

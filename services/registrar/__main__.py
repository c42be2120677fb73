"""Starts the registrar: `python -m services.registrar`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Registrar, RegistrarSettings)


if __name__ == "__main__":
    sys.exit(main())

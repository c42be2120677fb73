"""Starts the registrar: `python -m services.registrar`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Registrar, RegistrarSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

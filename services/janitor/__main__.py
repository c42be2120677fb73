"""Starts the janitor: `python -m services.janitor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Janitor, JanitorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

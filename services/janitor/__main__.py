"""Starts the janitor: `python -m services.janitor`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Janitor, JanitorSettings)


if __name__ == "__main__":
    sys.exit(main())

"""Starts the override renderer: `python -m services.override_renderer`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.settings import RendererSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(lambda _: OverrideRenderer(), RendererSettings)


if __name__ == "__main__":
    sys.exit(main())

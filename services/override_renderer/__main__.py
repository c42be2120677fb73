"""Starts the override renderer: `python -m services.override_renderer`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.settings import RendererSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(lambda _: OverrideRenderer(), RendererSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

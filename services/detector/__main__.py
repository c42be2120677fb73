"""Starts the detector: `python -m services.detector`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.detector.app import Detector
from services.detector.settings import DetectorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Detector, DetectorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Starts the detector: `python -m services.detector`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.detector.app import Detector
from services.detector.settings import DetectorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Detector, DetectorSettings)


if __name__ == "__main__":
    sys.exit(main())

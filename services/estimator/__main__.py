"""Starts the estimator: `python -m services.estimator`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.estimator.app import Estimator
from services.estimator.settings import EstimatorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Estimator, EstimatorSettings)


if __name__ == "__main__":
    sys.exit(main())

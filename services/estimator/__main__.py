"""Starts the estimator: `python -m services.estimator`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.estimator.app import Estimator
from services.estimator.settings import EstimatorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Estimator, EstimatorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

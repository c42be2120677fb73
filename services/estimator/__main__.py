"""Starts the estimator: `python -m services.estimator`."""

from services._kit.runtime.service_wiring import Program
from services.estimator.app import Estimator
from services.estimator.settings import EstimatorSettings

main = Program(Estimator, EstimatorSettings)

if __name__ == "__main__":
    main.exit()

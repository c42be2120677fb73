"""Starts the estimator: `python -m services.estimator`."""

from services._kit.runtime.service_wiring import log_reader
from services.estimator.app import Estimator
from services.estimator.settings import EstimatorSettings

main = log_reader(Estimator, EstimatorSettings)

if __name__ == "__main__":
    main.exit()

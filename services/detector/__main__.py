"""Starts the detector: `python -m services.detector`."""

from services._kit.runtime.service_wiring import log_reader
from services.detector.app import Detector
from services.detector.settings import DetectorSettings

main = log_reader(Detector, DetectorSettings)

if __name__ == "__main__":
    main.exit()

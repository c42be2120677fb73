"""Starts the detector: `python -m services.detector`."""

from services._kit.runtime.service_wiring import Program
from services.detector.app import Detector
from services.detector.settings import DetectorSettings

main = Program(Detector, DetectorSettings)

if __name__ == "__main__":
    main.exit()

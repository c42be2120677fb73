"""The catalogue of the detector's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from collections.abc import Callable

from services._kit.metrics import ReadCollector
from services.detector.state import DetectorState


def register(reads: ReadCollector, state: DetectorState, pending: Callable[[], int]) -> None:
    """Offer what the detector sees; `pending` counts writes to the control plane on their way."""
    reads.gauge("detector_objects", "Objects seen in the control plane", lambda: len(state.templates))
    reads.gauge("detector_policies", "Policies seen in the control plane", lambda: len(state.policies))
    reads.gauge("detector_waiting", "Objects that no policy matches", lambda: len(state.waiting))
    reads.gauge("detector_kinds_listed", "Kinds of which a complete list was seen", lambda: len(state.listed))
    reads.gauge("detector_pending_writes", "Claims and ids not yet written", pending)

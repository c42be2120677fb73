"""The catalogue of the detector's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemas.events.binding import BindingRequested
from services._kit.base.metrics import KitMetrics, exponential
from services._rules.absence.absence_guard import Guard
from services.detector.state import DetectorState, Key


def register(metrics: KitMetrics, state: DetectorState, pending: Callable[[], int]) -> Callable[[str], None]:
    """Offer what the detector sees; `pending` counts writes to the control plane on their way.

    Returns what counts a preemption, by its result: `success` or `error`.
    """
    reads = metrics.reads
    reads.gauge("detector_objects", "Objects seen in the control plane", lambda: len(state.templates))
    reads.gauge("detector_policies", "Policies seen in the control plane", lambda: len(state.policies))
    reads.gauge("detector_waiting", "Objects that no policy matches", lambda: len(state.waiting))
    reads.gauge("detector_kinds_listed", "Kinds of which a complete list was seen", lambda: len(state.listed))
    reads.gauge("detector_pending_writes", "Claims and ids not yet written", pending)
    guard = state.guard
    reads.gauge("control_plane_trusted", "1 while the control plane is who it is known to be", lambda: _trusted(guard))
    reads.gauge(
        "withdrawals_held", "Missing objects that do not count as deleted", lambda: guard.count, scope=guard.scope
    )
    attempts = reads.tally("policy_apply_attempts", "Policies applied to objects", "result")
    applying = metrics.timings(
        "resource_apply_policy_duration_seconds",
        "Time from the news of an object or policy until the binding was on the log",
        ("result",),
        exponential(0.001, 2, 12),
    )

    def stored(events: Sequence[object], seconds: float) -> None:
        if any(isinstance(event, BindingRequested) for event in events):
            attempts.add("success")
            applying.observe(seconds, "success")

    def failed(seconds: float) -> None:
        attempts.add("error")
        applying.observe(seconds, "error")

    metrics.on_stored(stored)
    metrics.on_failed(failed)
    preemptions = reads.tally("policy_preemption", "Objects that a policy took from another", "result")
    return preemptions.add


def _trusted(guard: Guard[Key]) -> bool:
    """Before it was read for the first time there is nothing to alert of."""
    return guard.judgement is None or guard.trusted

"""Decides the facts of the control plane as a whole: its identity, and which missing objects are held."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.events.control_plane import AbsenceEvent, AbsenceHeld, ControlPlaneIdentified
from schemas.keys import ObjectKey
from services._rules.absence import absence_guard as absence
from services._rules.kubernetes.event_objects import Note
from services.detector.recorded_objects import recorded_kinds
from services.detector.state import DetectorState

NAMESPACE: Final = ObjectKey("", "namespaces", "", "kube-system")
HELD: Final = "WithdrawalsHeld"
RELEASED: Final = "WithdrawalsReleased"


class ScopeVerdict(Struct, frozen=True):
    """Facts to append, and what a person should know; `settled`: the reason to hold what is missing ends."""

    events: tuple[ControlPlaneIdentified | AbsenceEvent, ...] = ()
    notes: tuple[Note, ...] = ()
    settled: bool = False


def decide_scope(state: DetectorState, now: float) -> ScopeVerdict:
    """The facts that are due about the control plane as a whole."""
    guard = state.guard
    identified = absence.identify(guard, now)
    events: list[ControlPlaneIdentified | AbsenceEvent] = [] if identified is None else [identified]
    kinds = recorded_kinds(state)
    due = absence.decide(guard, kinds, now)
    events.extend(due)
    # Nothing is written to a control plane that is not ours.
    notes = tuple(_note(event, guard.uid) for event in due) if guard.trusted else ()
    return ScopeVerdict(tuple(events), notes, absence.settles(guard, kinds))


def _note(event: AbsenceEvent, uid: str) -> Note:
    """The Kubernetes Event about what is held; it concerns the namespace that is the control plane's identity."""
    if isinstance(event, AbsenceHeld):
        reason, message, warning = HELD, event.message, True
    else:
        reason, message, warning = RELEASED, f"what is missing counts as deleted again: {event.reason}", False
    return Note(NAMESPACE, uid, "v1", "Namespace", reason, message[:1024], "resource-detector", warning)

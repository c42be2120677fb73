"""Decides facts of the control plane as a whole: its identity, missing objects that are held, kinds not yet listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from schemas.events.binding import BindingRequested
from schemas.events.control_plane import AbsenceEvent, AbsenceHeld, ControlPlaneIdentified
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._rules.absence import absence_guard as absence
from services._rules.decision import Decision
from services._rules.kubernetes.event_objects import Note
from services._rules.log.restore_order import absence_in_doubt
from services.detector.effects import Tell
from services.detector.objects.recorded_objects import recorded_kinds
from services.detector.state import DetectorState

NAMESPACE: Final = ObjectKey("", "namespaces", "", "kube-system")
HELD: Final = "WithdrawalsHeld"
RELEASED: Final = "WithdrawalsReleased"


class ScopeDecision(Decision, frozen=True):
    """Facts to append, and Kubernetes Events about them; `settled`: the reason to hold what is missing ends."""

    settled: bool = False


def decide_scope(state: DetectorState, now: float) -> ScopeDecision:
    """The facts that are due about the control plane as a whole."""
    guard = state.guard
    identified = absence.identify(guard, now)
    events: list[ControlPlaneIdentified | AbsenceEvent] = [] if identified is None else [identified]
    kinds = recorded_kinds(state)
    due = absence.decide(guard, kinds, now)
    events.extend(due)
    # Nothing is written to a control plane that is not ours.
    notes = tuple(Tell(_note(event, guard.uid)) for event in due) if guard.trusted else ()
    return ScopeDecision(tuple(events), effects=notes, settled=absence.settles(guard, kinds))


def _note(event: AbsenceEvent, uid: str) -> Note:
    """The Kubernetes Event about what is held; it concerns the namespace that is the control plane's identity."""
    if isinstance(event, AbsenceHeld):
        reason, message, warning = HELD, event.message, True
    else:
        reason, message, warning = RELEASED, f"what is missing counts as deleted again: {event.reason}", False
    return Note(NAMESPACE, uid, "v1", "Namespace", reason, message[:1024], "resource-detector", warning)


def unlisted(state: DetectorState) -> Counter[str]:
    """Kinds of which something stands on the log and no complete list was seen, each with its number of objects.

    Of a kind without any fact nothing outdated can be delivered: it need not be listed.
    """
    open_templates = {key for key, fact in state.template_facts.items() if isinstance(fact, TemplateChanged)}
    open_templates |= {key for key, fact in state.binding_facts.items() if isinstance(fact, BindingRequested)}
    found = Counter(key.group_resource for key in open_templates if key.group_resource not in state.listed)
    found.update(
        fact.key.kind
        for fact in state.policy_facts.values()
        if isinstance(fact, PolicyChanged) and fact.key.kind not in state.listed
    )
    return found


def unsettled(state: DetectorState, waiting: Iterable[object], asking: int) -> str:
    """What is missing; empty when everything on the log was compared.

    `waiting` are keys that the log could not take so far, `asking` how many wait for interpreters.
    """
    if doubt := absence_in_doubt(state.guard):
        return doubt
    if not state.policies_listed:
        return "the policies of the control plane have not been listed yet"
    if kinds := unlisted(state):
        named = ", ".join(f"{kind} ({count} on the log)" for kind, count in sorted(kinds.items())[:5])
        more = f" and {len(kinds) - 5} more" if len(kinds) > 5 else ""
        return (
            f"the control plane has not listed {named}{more}: each has to be served and may be listed by the detector; "
            "or end the restore without them: fleetlog log release"
        )
    if named := ", ".join(str(key) for key in list(waiting)[:3]):
        return f"manifests or keys could not be stored yet: {named}"
    return f"{asking} objects wait for interpreters" if asking else ""

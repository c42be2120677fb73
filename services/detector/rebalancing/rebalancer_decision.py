"""Decides what a WorkloadRebalancer asks of bindings, its status and its end (docs/sources.md#rebalancing)."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.interpreter.result_cache import ResultPending
from services._rules.kubernetes.event_objects import Note
from services._rules.policies.workload_rebalancers import (
    FAILED,
    NOT_FOUND,
    SUCCESSFUL,
    Rebalancer,
    Workload,
    judged,
    missing_words,
    outcome_words,
    rebalancer_of,
    status_of,
)
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.effects import DeleteRebalancer, DetectorDecision, Effect, NeedKey, Tell, WriteRebalancer
from services.detector.policies.policy_view import PolicyView
from services.detector.policies.reschedule_requests import Open, answers
from services.detector.state import DetectorState

KIND: Final = "WorkloadRebalancer"
API_VERSION: Final = "apps.karmada.io/v1alpha1"
PATIENCE: Final = 2.0
"""Seconds until results are written while others are still missing."""
LATER: Final = 10.0
"""Seconds between two looks at what is missing for longer."""


class RebalancerDecision(DetectorDecision, frozen=True):
    """Facts and writes about one rebalancer; `waits` is what the state remembers that it waits for."""

    waits: Open | None = None


def decide_rebalancer(state: DetectorState, key: PolicyKey, now: float) -> RebalancerDecision:
    """The fact about a rebalancer, its requests, and the writes of its status and of its end."""
    recorded = decide_policy(state, key)
    decision = RebalancerDecision(events=recorded.events, effects=recorded.effects)
    view = state.policies.get(key)
    if view is None or "deletionTimestamp" in view.manifest["metadata"]:
        return decision
    try:
        seen = rebalancer_of(view.manifest)
    except (msgspec.ValidationError, ValueError) as error:
        note = _note(view, "InvalidSpec", f"nothing is scheduled again by it: {error}")
        return replace(decision, effects=[*decision.effects, Tell(note)])
    decision = replace(decision, events=_with_outcome(state, key, decision, outcome_words(seen)))
    if not state.policies_listed:
        # Bindings are yet to be compared with the objects that there are.
        return replace(decision, waits=Open(seen.created, _since(state, key, now)))
    pending: set[ObjectKey] = set()
    unknown: list[Workload] = []
    entries = judged(seen.entries, lambda workload: _outcome(state, seen, workload, pending, unknown, now))
    effects = [*decision.effects, *_writes(state, view, seen, status_of(seen, entries, now), pending or unknown, now)]
    if not (pending or unknown):
        missing = missing_words(entries)
        if missing and seen.finish_time:
            effects.append(Tell(_note(view, NOT_FOUND, f"{missing}. {_HINT}")))
        return replace(decision, effects=effects, wake_at=seen.ends_at())
    since = _since(state, key, now)
    wake = since + PATIENCE if now < since + PATIENCE else now + LATER
    waits = Open(seen.created, since, frozenset(pending))
    return replace(decision, effects=effects, wake_at=wake, waits=waits, also=tuple(pending))


_HINT: Final = (
    "These were not scheduled again: check kind, namespace and name, and that a policy selects them; then name "
    "them in a new WorkloadRebalancer"
)


def _since(state: DetectorState, key: PolicyKey, now: float) -> float:
    """Since when a rebalancer waits."""
    waits = state.rebalancing.open.get(key)
    return waits.since if waits is not None else now


def _outcome(
    state: DetectorState,
    seen: Rebalancer,
    workload: Workload,
    pending: set[ObjectKey],
    unknown: list[Workload],
    now: float,
) -> str:
    """What came of one workload; what is open goes to `pending`, what may yet be listed to `unknown`."""
    resources = state.rebalancing.found(workload.kind)
    bound, coming = [], []
    for group, resource in resources:
        key = ObjectKey(group, resource, workload.namespace, workload.name)
        fact = state.binding_facts.get(key)
        if isinstance(fact, BindingRequested) and not fact.everywhere:
            bound.append((key, fact))
        elif key in state.templates and key not in state.waiting and _will_be_bound(state, key, now):
            coming.append(key)
    if bound or coming:
        asked = [key for key, fact in bound if not answers(fact, seen.name, seen.created)]
        pending.update(asked, coming)
        return "" if asked or coming else SUCCESSFUL
    served = state.rebalancing.served
    if served is None:
        unknown.append(workload)
        return ""
    names = (f"{resource}.{group}" if group else resource for group, resource in served.get(workload.kind.lower(), ()))
    if any(name not in state.listed for name in names):
        unknown.append(workload)
        return ""
    return FAILED


def _will_be_bound(state: DetectorState, key: ObjectKey, now: float) -> bool:
    """Whether the decision about an object, which is still to be made, makes a binding."""
    try:
        made = decide_template(state, key, now)
    except ResultPending:
        return True
    return any(
        (isinstance(item, BindingRequested) and not item.everywhere) or isinstance(item, NeedKey)
        for item in (*made.events, *made.effects)
    )


def _writes(
    state: DetectorState,
    view: PolicyView,
    seen: Rebalancer,
    status: dict[str, object] | None,
    open_entries: object,
    now: float,
) -> list[Effect]:
    """The write of a status that changed, once everything is there or some of it is late; or the end of the object."""
    version = str(view.manifest["metadata"].get("resourceVersion", ""))
    if status is not None:
        if open_entries and now < _since(state, view.key, now) + PATIENCE:
            return []
        return [WriteRebalancer(view.key, view.uid, version, status)]
    ends = seen.ends_at()
    if ends is not None and ends <= now and not open_entries:
        return [DeleteRebalancer(view.key, view.uid, version)]
    return []


def _with_outcome(state: DetectorState, key: PolicyKey, decision: DetectorDecision, outcome: str) -> list[Known]:
    """The facts about a rebalancer with what came of it; where that is all that is new, the last fact with it."""
    fact = state.policy_facts.get(key)
    events: list[Known] = [
        replace(event, outcome=outcome) if isinstance(event, PolicyChanged) else event for event in decision.events
    ]
    if not events and isinstance(fact, PolicyChanged) and fact.outcome != outcome and outcome:
        events = [replace(fact, outcome=outcome)]
    return events


def _note(view: PolicyView, reason: str, message: str) -> Note:
    named = ObjectKey("apps.karmada.io", "workloadrebalancers", "", view.key.name)
    return Note(named, view.uid, API_VERSION, KIND, reason, message[:1024], "resource-detector", True)

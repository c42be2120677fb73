"""Decides how many replicas the target of one FederatedHPA should have, from what a round read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.events.autoscaling import (
    AutoscalerReleased,
    ReplicasRecommended,
    ScalingCondition,
    TimedReplicas,
)
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.autoscaling.autoscaler_status import hpa_status
from services._rules.autoscaling.evaluation import Evaluation, evaluate
from services._rules.autoscaling.metric_proposals import Scope
from services._rules.autoscaling.metric_specs import metric_specs
from services._rules.autoscaling.scaling_conditions import ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, Condition
from services._rules.autoscaling.scaling_limits import (
    Ask,
    Behavior,
    Timed,
    allow,
    longest_window,
    read_behavior,
    remember,
    scaled,
)
from services._rules.decision import Decision
from services._rules.kubernetes.event_objects import Involved, Note, note_about
from services.autoscaler.scaling_effects import (
    Outcome,
    Refusal,
    Rescale,
    Round,
    ScalingDecision,
    Tell,
    Verify,
    WriteStatus,
)

COMPONENT: Final = "federatedHPA-controller"
ASKED: Final = "asked"
DONE: Final = "done"
_ABOVE: Final = "Current number of replicas above Spec.MaxReplicas"
_BELOW: Final = "Current number of replicas below Spec.MinReplicas"


class _Found(Struct):
    """What a round comes to, before it is compared with what is on the log."""

    desired: int
    conditions: list[Condition]
    statuses: Sequence[Manifest] = ()
    recommended: int | None = None
    metric: str = ""
    reason: str = ""
    notes: list[tuple[str, str]] = msgspec.field(default_factory=list)
    error: str = "none"


def decide(last: ReplicasRecommended | None, given: Round, now: float) -> ScalingDecision:
    """What becomes of a FederatedHPA by one round."""
    event, found = _recommended(last, given, now)
    rescales = event.write == ASKED
    effects: list[object] = [Tell(_note(event, *note)) for note in found.notes]
    if rescales and given.target is not None:
        effects.append(Rescale(given.key, given.target, given.current, found.desired, found.reason))
    effects.append(WriteStatus(given.key, given.uid, hpa_status(event, found.statuses)))
    action = "none" if not rescales else "scale_up" if found.desired > given.current else "scale_down"
    events = (event,) if rescales or _differs(_same(last, given), event, now) else ()
    return ScalingDecision(events=events, effects=effects, action=action, error=found.error)


def recommend(last: ReplicasRecommended | None, given: Round, now: float) -> ReplicasRecommended:
    """The fact that a round makes true, also where it says no more than the last one."""
    return _recommended(last, given, now)[0]


def _recommended(last: ReplicasRecommended | None, given: Round, now: float) -> tuple[ReplicasRecommended, _Found]:
    before = _same(last, given)
    if given.target is None and before is not None:
        # What is not known now stays as it was.
        given = replace(given, current=before.desired if before.write == DONE else before.current)
    spec = msgspec.json.decode(given.spec)
    behavior = read_behavior(spec["behavior"], given.window) if spec.get("behavior") else None
    longest = longest_window(behavior, given.window)
    considered = _considered(before, given, now, longest)
    found = _found(spec, behavior, before, given, considered, now)
    rescales = given.refusal is None and found.desired != given.current and given.target is not None
    event = ReplicasRecommended(
        key=given.key,
        uid=given.uid,
        spec=given.spec,
        generation=given.generation,
        target=given.target,
        current=given.current,
        desired=found.desired,
        recommended=found.recommended,
        metric=found.metric,
        reason=found.reason,
        write=ASKED if rescales else "",
        scales=given.scales,
        readings=given.readings,
        recommendations=tuple(item for item in considered if item.at >= now - longest),
        ups=before.ups if before else (),
        downs=before.downs if before else (),
        conditions=_since(before, found.conditions, now),
        window=given.window,
        tolerance=given.tolerance,
        scaled_at=before.scaled_at if before else 0.0,
    )
    return event, found


def _same(last: ReplicasRecommended | None, given: Round) -> ReplicasRecommended | None:
    """The last fact, unless it is about another FederatedHPA that had the name."""
    return last if last is not None and last.uid == given.uid else None


def unsettled(last: ReplicasRecommended) -> bool:
    """Whether it is not recorded yet how the change of replicas went that a decision asked for."""
    return last.write == ASKED and last.target is not None


def take_up(last: ReplicasRecommended) -> ScalingDecision:
    """Find out how a change went of which that is not recorded: nothing else is decided until then.

    It may have been written. It is not written again: what it was decided from is old.
    """
    assert last.target is not None
    return ScalingDecision(effects=(Verify(last.key, last.target, last.desired),))


def settle(last: ReplicasRecommended, outcome: Outcome, now: float) -> ScalingDecision:
    """Record how the change of replicas went that the last decision asked for."""
    if last.write != ASKED or outcome.replicas != last.desired:
        return ScalingDecision()
    conditions = {item.type: Condition(item.type, item.status, item.reason, item.message) for item in last.conditions}
    notes = []
    if outcome.problem:
        message = f"the HPA controller was unable to update the target scale: {outcome.problem}"
        conditions[ABLE_TO_SCALE] = Condition(ABLE_TO_SCALE, "False", "FailedUpdateScale", message)
        words = f"New size: {last.desired}; reason: {last.reason}; error: {outcome.problem}"
        notes.append(("FailedRescale", words, True))
        event = replace(last, write=outcome.problem, conditions=_since(last, list(conditions.values()), now))
    else:
        message = f"the HPA controller was able to update the target scale to {last.desired}"
        conditions[ABLE_TO_SCALE] = Condition(ABLE_TO_SCALE, "True", "SucceededRescale", message)
        notes.append(("SuccessfulRescale", f"New size: {last.desired}; reason: {last.reason}", False))
        ups, downs = _changes(last, now)
        event = replace(
            last,
            write=DONE,
            scaled_at=now,
            ups=ups,
            downs=downs,
            conditions=_since(last, list(conditions.values()), now),
        )
    effects: list[object] = [Tell(_note(event, *note)) for note in notes]
    # Metrics were shown by the round that asked for the change.
    effects.append(WriteStatus(event.key, event.uid, hpa_status(event, None)))
    return ScalingDecision(events=(event,), effects=effects)


def release(key: PolicyKey, last: ReplicasRecommended | None) -> Decision:
    """End what is remembered of a FederatedHPA that is gone."""
    return Decision((AutoscalerReleased(key=key, uid=last.uid),) if last is not None else ())


def decided_again(event: ReplicasRecommended) -> int:
    """The replicas that the inputs of a fact give now; those of a refusal are what it kept."""
    spec = msgspec.json.decode(event.spec)
    behavior = read_behavior(spec["behavior"], event.window) if spec.get("behavior") else None
    if event.recommended is None and event.reason not in (_ABOVE, _BELOW):
        return event.desired
    given = Round(
        key=event.key,
        uid=event.uid,
        spec=event.spec,
        generation=event.generation,
        target=event.target,
        current=event.current,
        scales=event.scales,
        readings=event.readings,
        least_zero=spec.get("minReplicas") == 0,
        window=event.window,
        tolerance=event.tolerance,
    )
    now = event.provenance.decided_at
    changes = replace(
        event,
        ups=tuple(item for item in event.ups if item.at < now),
        downs=tuple(item for item in event.downs if item.at < now),
    )
    return _found(spec, behavior, changes, given, event.recommendations, now).desired


def _considered(
    before: ReplicasRecommended | None, given: Round, now: float, longest: float
) -> tuple[TimedReplicas, ...]:
    """Recommendations before this one; none is later than now, to which the clock may have been set back.

    The first one is what there is, so that a new autoscaler lowers nothing within its window.
    """
    if before is None:
        return (TimedReplicas(given.current, now),)
    kept = [TimedReplicas(item.replicas, min(item.at, now)) for item in before.recommendations]
    if before.recommended is None:
        return tuple(kept)
    # It stood until it was confirmed last; after a restart that is not known, and it counts as standing.
    held = min(given.held or now, now)
    return _plain(remember(_timed(kept), before.recommended, held, longest))


def _found(
    spec: Mapping[str, Any],
    behavior: Behavior | None,
    before: ReplicasRecommended | None,
    given: Round,
    considered: Sequence[TimedReplicas],
    now: float,
) -> _Found:
    known = {item.type: Condition(item.type, item.status, item.reason, item.message) for item in _of(before)}
    if given.refusal is not None:
        return _refused(given, before, known, given.refusal)
    least, most = spec.get("minReplicas", 1), int(spec.get("maxReplicas") or 0)
    least = 1 if least is None else int(least)
    if least > most:
        message = f"minReplicas {least} is above maxReplicas {most}: nothing is scaled until one of them is changed"
        return _refused(given, before, known, Refusal("InvalidLimits", "InvalidLimits", message))
    known[ABLE_TO_SCALE] = Condition(
        ABLE_TO_SCALE, "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
    )
    if not given.current and not given.least_zero:
        message = "scaling is disabled since the replica count of the target is zero"
        known[SCALING_ACTIVE] = Condition(SCALING_ACTIVE, "False", "ScalingDisabled", message)
        return _Found(0, list(known.values()))
    if given.current > most:
        return _Found(most, list(known.values()), reason=_ABOVE)
    if given.current < least:
        return _Found(least, list(known.values()), reason=_BELOW)
    if given.current and not sum(item.replicas for item in given.scales):
        away = "; ".join(f"cluster {item.cluster}: {item.away}" for item in given.scales[:3] if item.away)
        message = f"no cluster is known to run replicas of the target{': ' if away else ''}{away}"
        return _refused(given, before, known, Refusal("FailedGetScale", "FailedGetScale", message))
    evaluation = _evaluated(spec, behavior, given)
    known[SCALING_ACTIVE] = evaluation.condition
    notes = [(evaluation.failed, evaluation.condition.message)] if evaluation.failed else []
    if evaluation.replicas is None:
        notes.append(("FailedComputeMetricsReplicas", evaluation.problem))
        return _Found(given.current, list(known.values()), evaluation.statuses, notes=notes, error="internal")
    return _limited(evaluation, behavior, before, given, considered, known, notes, (least, most), now)


def _evaluated(spec: Mapping[str, Any], behavior: Behavior | None, given: Round) -> Evaluation:
    total = sum(item.replicas for item in given.scales if not item.away)
    up, down = (behavior.up.tolerance, behavior.down.tolerance) if behavior is not None else (None, None)
    scope = Scope(
        given.current,
        total / given.current if given.current else 1.0,
        given.tolerance if up is None else up,
        given.tolerance if down is None else down,
    )
    existing = sum(item.existing for item in given.scales if not item.away)
    return evaluate(metric_specs(dict(spec)), given.readings, scope, existing)


def _limited(
    evaluation: Evaluation,
    behavior: Behavior | None,
    before: ReplicasRecommended | None,
    given: Round,
    considered: Sequence[TimedReplicas],
    known: dict[str, Condition],
    notes: list[tuple[str, str]],
    limits: tuple[int, int],
    now: float,
) -> _Found:
    """Bring what the metrics ask for into what is allowed now."""
    proposed = evaluation.replicas or 0
    ask = Ask(
        current=given.current,
        desired=proposed,
        least=limits[0],
        most=limits[1],
        now=now,
        window=given.window,
        behavior=behavior,
        recommendations=_timed(considered),
        ups=_timed(before.ups if before else ()),
        downs=_timed(before.downs if before else ()),
    )
    allowed = allow(ask)
    known.update((condition.type, condition) for condition in allowed.conditions)
    desired = allowed.replicas
    away = [item for item in given.scales if item.away]
    if desired < given.current and away:
        desired = given.current
        message = (
            f"replicas are not lowered from {given.current} to {allowed.replicas} while nothing is known of "
            + "; ".join(f"cluster {item.cluster}: {item.away}" for item in away[:3])
        )
        known[SCALING_LIMITED] = Condition(SCALING_LIMITED, "True", "MembersUnknown", message)
    reason = f"{evaluation.metric} above target" if proposed > given.current else "All metrics below target"
    return _Found(
        desired,
        list(known.values()),
        evaluation.statuses,
        recommended=proposed,
        metric=evaluation.metric,
        reason=reason if desired != given.current else "",
        notes=notes,
        error="internal" if evaluation.failed else "none",
    )


def _refused(given: Round, before: ReplicasRecommended | None, known: dict[str, Condition], refusal: Refusal) -> _Found:
    known[refusal.condition] = Condition(refusal.condition, "False", refusal.reason, refusal.message)
    desired = before.desired if before is not None and given.target is None else given.current
    return _Found(desired, list(known.values()), notes=[(refusal.event, refusal.message)], error="spec")


def _changes(last: ReplicasRecommended, now: float) -> tuple[tuple[TimedReplicas, ...], tuple[TimedReplicas, ...]]:
    """Changes that rates count, with that of a decision; without rates none is remembered."""
    behavior = msgspec.json.decode(last.spec).get("behavior")
    change = last.desired - last.current
    if not behavior or not change:
        return last.ups, last.downs
    rules = read_behavior(behavior, last.window)
    if change > 0:
        return _plain(scaled(_timed(last.ups), change, now, rules.up)), last.downs
    return last.ups, _plain(scaled(_timed(last.downs), -change, now, rules.down))


def _timed(items: Sequence[TimedReplicas]) -> list[Timed]:
    return [Timed(item.replicas, item.at) for item in items]


def _plain(items: Sequence[Timed]) -> tuple[TimedReplicas, ...]:
    return tuple(TimedReplicas(item.replicas, item.at) for item in items)


def _of(event: ReplicasRecommended | None) -> tuple[ScalingCondition, ...]:
    return event.conditions if event is not None else ()


def _since(
    before: ReplicasRecommended | None, conditions: Sequence[Condition], now: float
) -> tuple[ScalingCondition, ...]:
    """Conditions with the moment at which their status turned."""
    turned = {(item.type, item.status): item.since for item in _of(before)}
    return tuple(
        ScalingCondition(item.type, item.status, item.reason, item.message, turned.get((item.type, item.status), now))
        for item in sorted(conditions, key=lambda item: _ORDER.index(item.type))
    )


_ORDER: Final = (ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED)


def _differs(before: ReplicasRecommended | None, event: ReplicasRecommended, now: float) -> bool:
    """Whether a fact says more than the one before: the noise of samples that changes nothing is left out.

    One from before the clock was set back is written again: what it remembers would stand until the clock is there.
    """
    set_back = before is not None and before.provenance.decided_at > now
    return before is None or set_back or _told(before) != _told(event)


def _told(event: ReplicasRecommended) -> tuple[Any, ...]:
    reasons = tuple((item.type, item.status, item.reason) for item in event.conditions if item.reason not in _PASSING)
    return (event.generation, event.target, event.desired, event.recommended, reasons)


_PASSING: Final = frozenset({"SucceededGetScale", "SucceededRescale", "ReadyForNewScale"})
"""Ways of being able to scale that follow one another with every change."""


def _note(event: ReplicasRecommended, reason: str, message: str, warning: bool = True) -> Note:
    key = ObjectKey("autoscaling.karmada.io", "federatedhpas", event.key.namespace, event.key.name)
    involved = Involved(key, event.uid, "autoscaling.karmada.io/v1alpha1", event.key.kind)
    return note_about(involved, reason, message, COMPONENT, warning=warning)

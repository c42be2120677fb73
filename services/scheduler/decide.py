"""Decides the placement of one object: whether to schedule at all, and the fact about the outcome.

Source: docs/sources.md#scheduling.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.estimate import ClusterEstimate
from schemas.events.placement import (
    PlacementDecided,
    PlacementEvent,
    PlacementFailed,
    PlacementReleased,
    TargetCluster,
)
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.capacity.general_estimate import Component
from services._rules.capacity.reserved import displaced
from services._rules.decision import Decision
from services._rules.effective import spec_with_targets
from services._rules.generations import changes_of, generation_of
from services._rules.kubernetes.quantity import Quantity, QuantityError
from services._rules.policies.cluster_affinity import unknown_clusters
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.filters import at_moment
from services._rules.scheduling.outcome import outcome
from services._rules.scheduling.reschedule_triggers import RESCHEDULE, reschedule_due, trigger
from services._rules.scheduling.schedule import GroupAttempt, Stepped, schedule_groups
from services._rules.scheduling.scheduling_views import BindingView, Estimate, SchedulingOptions, Status
from services._rules.scheduling.scheduling_views import Decision as Schedule
from services.scheduler.decision_trace import Changed, Considered
from services.scheduler.ownership import handed_over_until, is_ours
from services.scheduler.placement_admission import (
    REQUESTS_CHANGED,
    admitted,
    asked_requests,
    requests_changed,
    with_new_requests,
)
from services.scheduler.repeated_decisions import stands
from services.scheduler.state import Scheduled, SchedulerState


class Rules(Struct, frozen=True):
    """What gates and flags change: options of the algorithm, and whether estimates of pull members count.

    `stepped` is called with each step of the algorithm as it ends; it changes nothing.
    """

    options: SchedulingOptions = SchedulingOptions(several_templates=True)
    pull_estimates: bool = True
    stepped: Stepped | None = None


class ScheduleDecision(Decision, frozen=True, eq=False):
    """A placement to append, and what was read to come to it (None where the algorithm was not run).

    With `wake_at` it is decided then, not now. The caller takes in what follows: targets of the event are promised
    (`SchedulerState.promise`), an object for which nothing was found was tried (`tried`).
    """

    considered: Considered | None = None
    lack: Mapping[str, Quantity] | None = None
    """What a quota refused: by how much the usage of the namespace would have changed."""

    @property
    def failed(self) -> bool:
        """Whether the algorithm found nothing."""
        return self.considered is not None and self.considered.attempt.decision.error is not None


_RULES: Final = Rules()


def schedule(
    state: SchedulerState,
    key: ObjectKey,
    now: float,
    scheduler: str,
    *,
    timeout: float = 0.0,
    since: float = 0.0,
    rules: Rules = _RULES,
) -> ScheduleDecision:
    """What becomes of one object: its placement, or until when it waits for another scheduler or an estimate."""
    later = handed_over_until(state, key, now, scheduler)
    if later is None:
        later = waits_until(state, key, now, scheduler, timeout, since, rules)
    if later is not None:
        return ScheduleDecision(wake_at=later)
    event, considered, lack = _decide(state, key, now, scheduler, None, rules)
    if event is None:
        return ScheduleDecision(considered=considered, lack=lack)
    read = ["binding", "eviction", "descheduling"]
    effects: tuple[Changed, ...] = ()
    if not isinstance(event, PlacementReleased):
        if event.estimates:
            read.append("estimate")
        if considered is not None:
            effects = (Changed(key, event, considered),)
    placed = replace(event, provenance=state.objects[key].seen(*read))
    return ScheduleDecision((placed,), effects=effects, considered=considered, lack=lack)


def decide_with_trace(
    state: SchedulerState,
    key: ObjectKey,
    now: float,
    scheduler: str,
    answers: tuple[ClusterEstimate, ...] | None = None,
    rules: Rules = _RULES,
) -> tuple[PlacementEvent | None, Considered | None]:
    """The placement that should become the latest of an object (None: the present one stands), and what it was made of.

    The second is None where the algorithm was not run.

    `answers` are used instead of the estimates in the state: those that a decision is on record with.
    """
    event, considered, _ = _decide(state, key, now, scheduler, answers, rules)
    return event, considered


def _decide(
    state: SchedulerState,
    key: ObjectKey,
    now: float,
    scheduler: str,
    answers: tuple[ClusterEstimate, ...] | None,
    rules: Rules,
) -> tuple[PlacementEvent | None, Considered | None, Mapping[str, Quantity] | None]:
    scheduled = state.objects.get(key)
    if scheduled is None:
        return None, None, None
    binding, placed = scheduled.binding, scheduled.placed
    if not isinstance(binding, BindingRequested):
        live = scheduled.unreleased
        # Only the scheduler that placed it releases it: two schedulers may read this fact.
        if live is not None and binding is not None and live.scheduler == scheduler:
            return PlacementReleased(key=key, uid=live.uid), None, None
        return None, None, None
    spec = scheduled.spec
    if spec is None or not is_ours(scheduled, scheduler):
        return None, None, None
    targets = scheduled.targets
    status = _status(placed, binding)
    estimates: tuple[ClusterEstimate, ...] = ()
    considered, requested = None, False
    asked = asked_requests(state, scheduled)
    try:
        view = binding_view(spec_with_targets(spec, targets, scheduled.tasks))
        view = at_moment(state.clusters, view, datetime.fromtimestamp(_moment(scheduled, now), UTC))
        why = _why(state, binding, view, status, placed, targets, rules.options) or requests_changed(state, scheduled)
        if why is None:
            return None, None, None
        if why == REQUESTS_CHANGED:
            made = with_new_requests(binding, scheduled, scheduler, asked)
            return admitted(state.quotas, scheduled, made, None, now)
        estimates = _estimates(state, scheduled, view, rules) if answers is None else answers
        clusters = state.with_room() if scheduled.by_room else state.clusters
        peers = rules.options.plugins.heeded(state.peers.of(key))
        attempt = schedule_groups(
            clusters, view, status, _answers(estimates), rules.options, peers, stepped=rules.stepped
        )
        considered = Considered(clusters, view, status, estimates, rules.options, attempt, why, peers)
        requested = _answers_request(view, status, now)
    except (msgspec.ValidationError, QuantityError, ValueError) as error:
        unreadable = Schedule((), "Error", f"the binding cannot be read: {error}")
        attempt, why = GroupAttempt(unreadable, status.observed_affinity), "the binding changed"
        asked = placed.requests if placed is not None else None
    known = state.clusters.by_name.keys()
    event = _outcome(scheduled, binding, spec, placed, targets, attempt, why, now, scheduler, requested, asked, known)
    if event is not None and _heeds_estimates(state, scheduled):
        event = replace(event, estimates=estimates, estimate_missed=not scheduled.answered(state.leaving))
    return admitted(state.quotas, scheduled, event, considered, now)


def waits_until(
    state: SchedulerState,
    key: ObjectKey,
    now: float,
    scheduler: str,
    timeout: float,
    since: float = 0.0,
    rules: Rules = _RULES,
) -> float | None:
    """Until when an object that has to be scheduled waits for an estimate; None where it need not wait (any more).

    `timeout` in seconds is counted from the fact that asks, or from `since` where that is later
    (docs/sources.md#estimators). A fact that was stored further ahead than that, by the log's clock, is not waited for.
    """
    scheduled = state.objects.get(key)
    if scheduled is None or not _heeds_estimates(state, scheduled) or scheduled.answered(state.leaving):
        return None
    binding, placed, spec = scheduled.binding, scheduled.placed, scheduled.spec
    if spec is None or not isinstance(binding, BindingRequested) or not is_ours(scheduled, scheduler):
        return None
    asked = [scheduled.touched, since]
    asked += [state.left_at.get(target.name, 0.0) for target in placed.clusters] if placed is not None else []
    deadline = max((at for at in asked if at <= now + timeout), default=0.0) + timeout
    if now >= deadline:
        return None
    targets = scheduled.targets
    try:
        view = binding_view(spec_with_targets(spec, targets, scheduled.tasks))
        why = _why(state, binding, view, _status(placed, binding), placed, targets, rules.options)
        return deadline if why is not None else None
    except (msgspec.ValidationError, QuantityError, ValueError):
        return None


def _moment(scheduled: Scheduled, now: float) -> float:
    """Now, and not before an eviction that it follows: a toleration that is over for failover is over here."""
    eviction = scheduled.eviction
    return max(now, eviction.provenance.decided_at) if eviction is not None else now


def _answers_request(view: BindingView, status: Status, now: float) -> bool:
    """Whether a success now is the answer to a request for a new schedule, also when nothing moves by it."""
    asked = view.reschedule_triggered_at
    if asked is None or not reschedule_due(view, status):
        return False
    # Where only times tell, a request from the future would be answered without end.
    return status.unanswered is not None or asked.timestamp() <= now


def _status(placed: PlacementDecided | PlacementFailed | None, binding: BindingRequested) -> Status:
    if placed is None:
        return Status()
    asked = binding.reschedule
    return Status(
        placed.affinity_name,
        _time(placed.scheduled_at) if placed.scheduled_at else None,
        placed.rescheduled < asked.generation if asked is not None else None,
    )


def _why(
    state: SchedulerState,
    binding: BindingRequested,
    view: BindingView,
    status: Status,
    placed: PlacementDecided | PlacementFailed | None,
    targets: tuple[TargetCluster, ...],
    options: SchedulingOptions,
) -> str | None:
    """Why the object is scheduled now; None when what stands is still right."""
    applied = None if placed is None or isinstance(placed.placement, UnsetType) else bytes(placed.placement).decode()
    due = trigger(state.clusters, view, status, applied, options)
    if due is not None and due.reason == RESCHEDULE and binding.reschedule is not None:
        return f"rescheduled because of WorkloadRebalancer {', '.join(binding.reschedule.by)}"
    if due is not None:
        return due.reason
    if placed is not None and [item.name for item in targets] != [item.name for item in placed.clusters]:
        return "an eviction changed the target clusters"
    for target in targets:
        if target.name not in state.clusters.by_name:
            return f"target cluster {target.name} is no member any more"
    return placed.trigger if isinstance(placed, PlacementFailed) else None


def _outcome(
    scheduled: Scheduled,
    binding: BindingRequested,
    spec: Manifest,
    placed: PlacementDecided | PlacementFailed | None,
    targets: tuple[TargetCluster, ...],
    attempt: GroupAttempt,
    why: str,
    now: float,
    scheduler: str,
    requested: bool,
    asked: dict[str, str] | None,
    known: AbstractSet[str],
) -> PlacementDecided | PlacementFailed | None:
    placement = Raw(msgspec.json.encode(spec.get("placement") or {}))
    wished = spec.get("replicas")
    replicas = wished if isinstance(wished, int) else 0
    decision = attempt.decision
    changes = changes_of(placed, binding.uid)
    if decision.error is None:
        wanted = _targets(decision, counts=binding.workload)
        # An evicted cluster that is chosen again comes back only by a placement that has seen the eviction.
        whole = placed is not None and targets == placed.clusters
        same = isinstance(placed, PlacementDecided) and stands(placed, wanted, placement, replicas, attempt)
        if same and whole and not requested and placed is not None and placed.requests == asked:
            return None
        moved = changes + (wanted != targets)
        others = generation_of(binding, None, scheduled.eviction, scheduled.descheduling)
        return PlacementDecided(
            key=binding.key,
            uid=binding.uid,
            clusters=wanted,
            binding_generation=binding.generation,
            placement=placement,
            replicas=replicas,
            affinity_name=attempt.observed_affinity,
            trigger=why,
            scheduler=scheduler,
            scheduled_at=now,
            requests=asked,
            rescheduled=binding.reschedule.generation if binding.reschedule is not None else 0,
            changes=moved,
            observed_generation=others + moved,
            since=(placed.since or placed.scheduled_at) if isinstance(placed, PlacementDecided) else now,
        )
    # Where no cluster fits the object leaves all; any other failure keeps what runs (docs/sources.md#scheduling).
    report = outcome(decision)
    cleared = report.replaces_targets
    missing = unknown_clusters(spec.get("placement"), known) if cleared else []
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    hint = f" Named in the placement, but no members: {', '.join(missing[:3])}{more}." if missing else ""
    return PlacementFailed(
        key=binding.key,
        uid=binding.uid,
        reason=report.reason,
        message=report.message + hint,
        clusters=() if cleared else targets,
        binding_generation=binding.generation,
        placement=placement if cleared else (placed.placement if placed is not None else UNSET),
        replicas=replicas if cleared or placed is None else placed.replicas,
        affinity_name=attempt.observed_affinity,
        trigger=why,
        scheduler=scheduler,
        scheduled_at=placed.scheduled_at if placed is not None else 0.0,
        failed_at=now,
        requests=asked,
        rescheduled=placed.rescheduled if placed is not None else 0,
        changes=changes + (cleared and bool(targets)),
        observed_generation=placed.observed_generation if placed is not None else 0,
        since=(placed.since or placed.failed_at) if isinstance(placed, PlacementFailed) else now,
    )


def _estimates(
    state: SchedulerState, scheduled: Scheduled, view: BindingView, rules: Rules
) -> tuple[ClusterEstimate, ...]:
    """The opinions that count, less what was given since: of an estimate that saw what this decision is about."""
    estimate = scheduled.estimate
    if estimate is None or not _heeds_estimates(state, scheduled) or not scheduled.answered(state.leaving):
        return ()
    wanted = view.components or (Component("", 1, view.demand),)
    position = estimate.provenance.as_of
    return tuple(
        _less_given(state, item, position, wanted)
        for item in estimate.estimates
        if item.replicas >= 0 and (rules.pull_estimates or not state.pulls(item.cluster))
    )


def _less_given(
    state: SchedulerState, item: ClusterEstimate, position: int, wanted: tuple[Component, ...]
) -> ClusterEstimate:
    """An answer without the room of what was placed after it."""
    given = state.ledger.since(item.cluster, item.position or position)
    gone = min(item.replicas, displaced(given, wanted)) if given else 0
    return replace(item, replicas=item.replicas - gone, reserved=gone) if gone else item


def _heeds_estimates(state: SchedulerState, scheduled: Scheduled) -> bool:
    return scheduled.by_room and state.has_estimator


def _answers(estimates: tuple[ClusterEstimate, ...]) -> list[Estimate]:
    return [{item.cluster: item.replicas for item in estimates}] if estimates else []


def _targets(decision: Schedule, *, counts: bool) -> tuple[TargetCluster, ...]:
    return tuple(
        sorted(TargetCluster(target.name, target.replicas if counts else None) for target in decision.clusters)
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

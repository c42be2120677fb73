"""Decides the evictions of one object: clusters to leave, tasks that are over, and when to decide again."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.decision import Decision
from services._rules.failover import application_failover as application
from services._rules.failover.eviction_requests import Target, evict, removed
from services._rules.failover.eviction_tasks import Assessment, assess, expires_at, next_look
from services._rules.failover.replacement_health import health_by_cluster
from services._rules.failover.state_preservation import StateError, preserved_state
from services._rules.failover.taint_eviction import AppliedPlacementError, cluster_purge_mode, stay, tolerations_of
from services._rules.generations import next_change
from services._rules.kubernetes.taints import Toleration, matching_tolerations
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.reschedule_triggers import placement_changed
from services.failover.state import FailoverState, Moving

Tasks = tuple[EvictionTask, ...]

_SOON: Final = 0.001  # a deadline is over once it lies in the past, not at the moment itself


class Rules(Struct, frozen=True, kw_only=True):
    """What the settings ask for; times in seconds."""

    taint_eviction: bool = False
    purge_mode: str = "Gracefully"
    timeout: float = 600.0
    gates: application.Gates = application.Gates()


class FailoverDecision(Decision, frozen=True):
    """The eviction fact to append, if any.

    `by_taint`: the event makes the object leave a tainted cluster. `problem` is why it should leave a
    cluster but cannot be moved yet.
    """

    by_taint: bool = False
    problem: str = ""


class _Draft:
    """What becomes of the targets and tasks of one object while the rules are applied to it."""

    def __init__(self, targets: tuple[Target, ...], tasks: Tasks) -> None:
        self.targets = targets
        self.tasks = tasks
        self.wake: list[float] = []
        self.by_taint = False
        self.problem = ""


_NOTHING: Final = FailoverDecision()


def decide(state: FailoverState, key: ObjectKey, now: float, rules: Rules, *, in_turn: bool = True) -> FailoverDecision:
    """Decides the evictions of one object; no event while the last one still holds.

    Out of turn nothing leaves a tainted cluster that is not leaving yet; what is under way goes on.
    """
    moving = state.objects.get(key)
    if moving is None or moving.binding is None:
        return _NOTHING
    binding, eviction = moving.binding, moving.eviction
    if not isinstance(binding, BindingRequested) or (eviction is not None and eviction.uid != binding.uid):
        if isinstance(eviction, EvictionRequested):
            closing = EvictionFinished(
                key=key, uid=eviction.uid, changes=next_change(eviction, eviction.uid), provenance=_seen(moving)
            )
            return FailoverDecision((closing,))
        if not isinstance(binding, BindingRequested):
            return _NOTHING
    if binding.everywhere:
        return _NOTHING
    before = moving.tasks
    where = moving.effective(state.clusters)
    ended: tuple[str, ...] = ()
    draft = _Draft(where.targets, before)
    if before:
        assessment = assess(
            before,
            now,
            timeout=rules.timeout,
            scheduled=_answered(moving, binding),
            targets=[target.name for target in where.targets],
            health=health_by_cluster(_items(moving, binding), where.targets),
        )
        ended = assessment.ended
        draft.tasks = _held_back(before, assessment, state, moving, now, rules)
        if moving.rollup is not None and moving.rollup.uid == binding.uid:
            draft.tasks = removed(draft.tasks, moving.rollup.cleared)
    if rules.taint_eviction and in_turn:
        _leave_tainted(draft, state, moving, binding, now, rules)
    if moving.cares_for_health:
        _leave_unhealthy(draft, moving, binding, now, rules)
    # What is held back has expired: no time ends it.
    expires = next_look([task for task in draft.tasks if expires_at(task, rules.timeout) >= now], rules.timeout)
    if expires is not None:
        draft.wake.append(expires + _SOON)
    wake_at = min(draft.wake, default=None)
    if draft.tasks == before:
        # Nothing ended, or what did is held back as it is.
        return FailoverDecision(wake_at=wake_at, problem=draft.problem)
    event = _event(moving, binding, draft.tasks, ended)
    return FailoverDecision((event,), wake_at, by_taint=draft.by_taint, problem=draft.problem)


def _held_back(
    before: Tasks, assessment: Assessment, state: FailoverState, moving: Moving, now: float, rules: Rules
) -> Tasks:
    """Tasks that go on, with those that are over but without which the object would come right back.

    The scheduler takes a toleration for one without end. Where its seconds are over, the cluster would be chosen again
    and left again, at once and for ever: the task stays until the taint is gone, but no longer keeps the copy.
    """
    if not assessment.ended or not rules.taint_eviction:
        return assessment.kept
    kept = {task.from_cluster: task for task in assessment.kept}
    for task in before:
        if task.from_cluster in assessment.ended and _would_return(task, state, moving, now):
            kept[task.from_cluster] = replace(task, purge_mode="Directly", removed=True)
    return tuple(kept[task.from_cluster] for task in before if task.from_cluster in kept)


def _would_return(task: EvictionTask, state: FailoverState, moving: Moving, now: float) -> bool:
    taints = state.clusters.get(task.from_cluster, ())
    if task.reason != const.EVICTION_REASON_TAINT_UNTOLERATED or not taints:
        return False
    try:
        tolerations = tolerations_of(_applied(moving) or b"")
    except AppliedPlacementError:
        return False
    tolerated, _ = matching_tolerations(taints, tolerations)
    return tolerated and stay(taints, tolerations, now).leave


def _event(moving: Moving, binding: BindingRequested, tasks: Tasks, ended: tuple[str, ...]) -> EvictionEvent:
    """The fact about these tasks, with the clusters that were left earlier and that no placement has seen yet."""
    unseen: tuple[str, ...] = ()
    eviction, placed = moving.eviction, moving.placed
    if eviction is not None and eviction.uid == binding.uid:
        as_of = placed.provenance.as_of if placed is not None else 0
        if as_of < moving.eviction_seq:
            named = {*ended, *(task.from_cluster for task in tasks)}
            unseen = tuple(sorted({*eviction.left, *eviction.unseen} - named))
    seen, changes = _seen(moving), next_change(eviction, binding.uid)
    if tasks:
        return EvictionRequested(
            key=binding.key,
            uid=binding.uid,
            tasks=tasks,
            left=ended,
            unseen=unseen,
            changes=changes,
            provenance=seen,
        )
    return EvictionFinished(
        key=binding.key, uid=binding.uid, left=ended, unseen=unseen, changes=changes, provenance=seen
    )


def _seen(moving: Moving) -> Provenance:
    return moving.seen("binding", "placement", "rollup", "eviction")


def _answered(moving: Moving, binding: BindingRequested) -> bool:
    """Whether the scheduler is done: it placed the present request outside the clusters that are being left."""
    placed = moving.placed
    if not isinstance(placed, PlacementDecided) or placed.replicas != binding.replicas:
        return False
    leaving = {task.from_cluster for task in moving.tasks}
    if any(target.name in leaving for target in placed.clusters):
        return False
    applied = _applied(moving)
    view = binding_view(msgspec.json.decode(binding.spec))
    return applied is not None and not placement_changed(view.placement, applied.decode(), placed.affinity_name)


def _applied(moving: Moving) -> bytes | None:
    placed = moving.placed
    if placed is None or isinstance(placed.placement, UnsetType):
        return None
    return bytes(placed.placement)


def _items(moving: Moving, binding: BindingRequested) -> tuple[ClusterStatusItem, ...]:
    rollup: StatusRolledUp | None = moving.rollup
    return rollup.items if rollup is not None and rollup.uid == binding.uid else ()


def _leave_tainted(
    draft: _Draft, state: FailoverState, moving: Moving, binding: BindingRequested, now: float, rules: Rules
) -> None:
    """Evict from clusters whose NoExecute taints the placement does not tolerate (any more).

    Source: docs/sources.md#failover.
    """
    tainted = [target for target in draft.targets if state.clusters.get(target.name)]
    if not tainted:
        return
    try:
        tolerations: tuple[Toleration, ...] = tolerations_of(_applied(moving) or b"")
    except AppliedPlacementError as error:
        draft.problem = str(error)
        return
    failover: Manifest | None = None
    for target in tainted:
        remaining = stay(state.clusters[target.name], tolerations, now)
        if not remaining.leave:
            if remaining.seconds is not None:
                draft.wake.append(now + remaining.seconds)
            continue
        if failover is None:
            failover = msgspec.json.decode(binding.spec, type=Manifest).get("failover") or {}
        try:
            kept = _state_of(failover.get("cluster") or {}, moving, binding, target.name, rules)
        except StateError as error:
            draft.problem = str(error)
            continue
        task = EvictionTask(
            from_cluster=target.name,
            reason=const.EVICTION_REASON_TAINT_UNTOLERATED,
            producer=const.EVICTION_PRODUCER_TAINT_MANAGER,
            purge_mode=cluster_purge_mode(failover, rules.purge_mode),
            created_at=now,
            preserved_state=kept,
        )
        draft.targets, draft.tasks = evict(draft.targets, draft.tasks, task)
        draft.by_taint = True


def _state_of(
    behaviour: Manifest, moving: Moving, binding: BindingRequested, cluster: str, rules: Rules
) -> dict[str, str]:
    if not rules.gates.stateful_failover_injection or not behaviour.get("statePreservation"):
        return {}
    return preserved_state(behaviour["statePreservation"], _statuses(moving, binding), cluster)


def _statuses(moving: Moving, binding: BindingRequested) -> list[Manifest]:
    """The aggregated status as rules read it."""
    items: list[Manifest] = []
    for item in _items(moving, binding):
        entry: Manifest = {"clusterName": item.cluster, "health": item.health}
        if not isinstance(item.status, UnsetType):
            entry["status"] = msgspec.json.decode(item.status)
        items.append(entry)
    return items


def _leave_unhealthy(draft: _Draft, moving: Moving, binding: BindingRequested, now: float, rules: Rules) -> None:
    """Evict from clusters where the object was unhealthy for longer than its policy tolerates.

    Source: docs/sources.md#application-failover.
    """
    spec: Manifest = msgspec.json.decode(binding.spec)
    behaviour: Manifest = (spec.get("failover") or {}).get("application") or {}
    if not behaviour or not spec.get("propagateDeps"):
        return
    statuses = _statuses(moving, binding)
    named = {target.name for target in draft.targets}
    found = application.health_of(statuses, draft.tasks)
    unhealthy = [name for name in found.unhealthy if name in named]
    tolerated = (behaviour.get("decisionConditions") or {}).get("tolerationSeconds")
    toleration = float(application.DEFAULT_TOLERATION if tolerated is None else tolerated)
    failure = application.detect(unhealthy, moving.unhealthy_since, toleration, now)
    waiting = [moving.unhealthy_since.get(name, now) + toleration for name in unhealthy if name not in failure.evict]
    draft.wake.extend(at + _SOON for at in waiting)
    if not failure.evict:
        return
    try:
        targets, tasks = application.evict_unhealthy(
            behaviour,
            failure.evict,
            draft.targets,
            draft.tasks,
            statuses,
            gates=rules.gates,
            producer=application.PRODUCER if binding.key.namespace else application.PRODUCER_CLUSTER_WIDE,
        )
    except (StateError, application.PurgeRefused) as error:
        draft.problem = str(error)
        return
    draft.targets = targets
    draft.tasks = tuple(task if task.created_at else replace(task, created_at=now) for task in tasks)

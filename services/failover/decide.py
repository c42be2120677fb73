"""Decides the evictions of one object: clusters to leave, tasks that are over, and when to decide again."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested, EvictionTask, Postponed
from schemas.events.placement import PlacementDecided
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.decision import Decision
from services._rules.effective import REMOVED_AT_ONCE
from services._rules.failover import application_failover as application
from services._rules.failover.eviction_requests import Target, evict, removed
from services._rules.failover.eviction_tasks import assess, next_look
from services._rules.failover.replacement_health import health_by_cluster
from services._rules.failover.state_preservation import StateError, preserved_state
from services._rules.failover.taint_eviction import AppliedPlacementError, cluster_purge_mode, stay, tolerations_of
from services._rules.generations import next_change
from services._rules.kubernetes.taints import Toleration
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.reschedule_triggers import placement_changed
from services.failover.state import FailoverState, Moving

Tasks = tuple[EvictionTask, ...]

_LONGEST: Final = 300
"""Characters of a reason that are recorded."""
_SOON: Final = 0.001  # a deadline is over once it lies in the past, not at the moment itself


class Rules(Struct, frozen=True, kw_only=True):
    """What the settings ask for; times in seconds."""

    taint_eviction: bool = False
    purge_mode: str = "Gracefully"
    timeout: float = 600.0
    gates: application.Gates = application.Gates()


class FailoverDecision(Decision, frozen=True):
    """The eviction fact to append, if any.

    `by_taint`: the event makes the object leave a tainted cluster. `postponed` are the clusters that it should leave
    but cannot be moved out of yet.
    """

    by_taint: bool = False
    postponed: tuple[Postponed, ...] = ()


class _Draft:
    """What becomes of the targets and tasks of one object while the rules are applied to it."""

    def __init__(self, targets: tuple[Target, ...], tasks: Tasks) -> None:
        self.targets = targets
        self.tasks = tasks
        self.ended: list[str] = []
        self.returned: list[Target] = []
        self.postponed: dict[str, str] = {}
        self.wake: list[float] = []
        self.by_taint = False


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
    draft = _Draft(where.targets, before)
    if before:
        _assess(draft, state, moving, binding, now, rules)
    if rules.taint_eviction and in_turn:
        _leave_tainted(draft, state, moving, binding, now, rules)
    elif rules.taint_eviction:
        draft.postponed.update((item.cluster, item.reason) for item in moving.postponed)
    if moving.cares_for_health:
        _leave_unhealthy(draft, moving, binding, now, rules)
    expires = next_look(draft.tasks, rules.timeout)
    if expires is not None:
        draft.wake.append(expires + _SOON)
    wake_at = min(draft.wake, default=None)
    postponed = tuple(Postponed(name, reason[:_LONGEST]) for name, reason in sorted(draft.postponed.items()))
    if draft.tasks == before and postponed == moving.postponed:
        return FailoverDecision(wake_at=wake_at, postponed=postponed)
    event = _event(moving, binding, draft, postponed)
    return FailoverDecision((event,), wake_at, by_taint=draft.by_taint, postponed=postponed)


def _assess(
    draft: _Draft, state: FailoverState, moving: Moving, binding: BindingRequested, now: float, rules: Rules
) -> None:
    """End the tasks that are over by time or by a replacement, and those whose reason is gone.

    A cluster that need not be left any more and still has its copy is a target again. A copy that is removed before
    anything new comes is lost in any case: its task ends when it is gone.
    """
    assessment = assess(
        draft.tasks,
        now,
        timeout=rules.timeout,
        scheduled=_answered(moving, binding),
        targets=[target.name for target in draft.targets],
        health=health_by_cluster(_items(moving, binding), draft.targets),
    )
    kept = {task.from_cluster: task for task in assessment.kept}
    rollup = moving.rollup
    cleared = rollup.cleared if rollup is not None and rollup.uid == binding.uid else ()
    tasks = []
    for task in removed([kept.get(task.from_cluster, task) for task in draft.tasks], cleared):
        name = task.from_cluster
        pointless = not assessment.replaced and _reason_is_gone(task, state, moving, now)
        if name not in state.clusters:
            draft.ended.append(name)
        elif pointless and task.purge_mode not in REMOVED_AT_ONCE:
            draft.returned.append(Target(name, task.replicas))
        elif name in kept and not (pointless and task.removed):
            tasks.append(task)
        else:
            draft.ended.append(name)
    draft.tasks = tuple(tasks)


def _reason_is_gone(task: EvictionTask, state: FailoverState, moving: Moving, now: float) -> bool:
    """Whether a taint drove the object out of a cluster that it might stay in by now; tasks of others are not."""
    if task.producer != const.EVICTION_PRODUCER_TAINT_MANAGER or task.suppress_deletion is not None:
        return False
    taints = state.clusters.get(task.from_cluster, ())
    try:
        return not taints or not stay(taints, tolerations_of(_applied(moving) or b""), now).leave
    except AppliedPlacementError:
        return False


def _event(moving: Moving, binding: BindingRequested, draft: _Draft, postponed: tuple[Postponed, ...]) -> EvictionEvent:
    """The fact about these tasks, with what became of clusters before as far as no placement has seen it."""
    unseen: tuple[str, ...] = ()
    eviction, placed, tasks = moving.eviction, moving.placed, draft.tasks
    ended, returned = tuple(draft.ended), draft.returned
    changes = next_change(eviction, binding.uid) - (tasks == moving.tasks)
    seen_until = placed.provenance.as_of if placed is not None else 0
    if eviction is not None and eviction.uid == binding.uid and seen_until < moving.eviction_seq:
        named = {*ended, *(task.from_cluster for task in tasks), *(target.name for target in returned)}
        returned = [*returned, *(target for target in eviction.returned if target.name not in named)]
        unseen = tuple(sorted({*eviction.left, *eviction.unseen} - named))
    seen = _seen(moving)
    if tasks or postponed:
        return EvictionRequested(
            key=binding.key,
            uid=binding.uid,
            tasks=tasks,
            left=ended,
            unseen=unseen,
            returned=tuple(sorted(returned)),
            postponed=postponed,
            changes=changes,
            provenance=seen,
        )
    return EvictionFinished(
        key=binding.key,
        uid=binding.uid,
        left=ended,
        unseen=unseen,
        returned=tuple(sorted(returned)),
        changes=changes,
        provenance=seen,
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
        draft.postponed.update((target.name, str(error)) for target in tainted)
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
            draft.postponed[target.name] = str(error)
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
        draft.postponed.update((name, str(error)) for name in failure.evict)
        return
    draft.targets = targets
    draft.tasks = tuple(task if task.created_at else replace(task, created_at=now) for task in tasks)

"""Decides the aggregated status of one object from its works and their observations (docs/sources.md#status)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided
from schemas.events.rollup import Cleared, ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._rules.constants import LABEL_TRUE, RETAIN_REPLICAS_LABEL
from services._rules.delivery.observations import not_looked_at
from services._rules.delivery.plausibility import Given, implausible, most_replicas, numbers
from services._rules.delivery.work_status import NOT_YET, fully_applied
from services._rules.effective import removed_at_once
from services._rules.interpreter.common.interpretation import shortened
from services.status_aggregator.state import AT_ONCE, AggregatorState, Copy, Reported

LARGEST_SUM: Final = 4 << 20
"""Bytes of the statuses of all clusters in one rollup: with those of one more, it would not fit into a message."""


class RollupPace(Struct, frozen=True):
    """How aggregation is paced, in seconds: the settings `rollup_…` of the same names."""

    gather: float
    interval: float
    patience: float
    settle: float = 0.0


def has_news(reported: Reported) -> bool:
    """Whether a member reported since the last sum."""
    said = reported.rollup.observed_position if reported.rollup is not None else 0
    return any(seq > said for _, seq in reported.observed.values())


def affordable_at(reported: Reported, now: float) -> float:
    """When an object with many sums of late may have its next one: a few at once, then one per second.

    So a member that reports without end makes the log grow no faster than that.
    """
    spent = reported.spent
    # A stamp from the future is of another clock, or of before this one was set back.
    return spent.at + spent.sums - AT_ONCE if spent.sums > AT_ONCE and spent.at <= now else 0.0


def due_at(reported: Reported, now: float, pace: RollupPace, slower: float = 1.0) -> float:
    """When a changed sum may be recorded: when it is gathered, and when the object may have another one."""
    return max(gathered_at(reported, now, pace, slower), affordable_at(reported, now))


def gathered_at(reported: Reported, now: float, pace: RollupPace, slower: float = 1.0) -> float:
    """When a changed sum is complete enough: members report in bursts, and one sum can cover a whole burst.

    `slower` (1 or more) stretches the time between two sums, and how long a sum waits for further reports.
    A stamp further ahead than what is waited for comes from another clock, or from before this one was set back: it
    counts as long ago, and no sum waits until it has passed.
    """
    last = reported.rollup
    if last is None and not reported.observed:
        rendered = [_known(work.at, now + pace.patience) for work in reported.works.values()]
        return max(rendered, default=0.0) + pace.patience
    said = last.observed_position if last is not None else 0
    more = _more_will_come(reported)
    gather = max(pace.gather, min(pace.settle * slower, pace.patience)) if more else pace.gather
    unsaid = [_known(event.at, now + gather) for event, seq in reported.observed.values() if seq > said]
    before = _known(last.provenance.decided_at, now + pace.interval * slower) if last is not None else 0.0
    if not more and len(unsaid) >= len(reported.works):
        # Every member has reported since: there is no report left to wait for.
        return before + pace.interval * (slower - 1.0)
    gathered = min(unsaid) + gather if unsaid else 0.0
    return max(gathered, before + pace.interval * slower)


def _known(stamp: float, latest: float) -> float:
    return stamp if stamp <= latest else 0.0


def _more_will_come(reported: Reported) -> bool:
    """Whether a copy has no observation yet, or its cluster is about to report on it."""
    for cluster in reported.works:
        entry = reported.observed.get(cluster)
        if entry is None or not_looked_at(entry[0]):
            return True
    return False


def decide(state: AggregatorState, key: ObjectKey) -> StatusRolledUp | None:
    """The rollup that should be the latest of an object, or None when it already is."""
    reported = state.objects.get(key)
    if reported is None:
        return None
    wanted = summed(state, key, reported)
    before = reported.rollup
    if wanted is None:
        return None
    if before is not None and _same(before, wanted):
        return None
    return wanted


def summed(state: AggregatorState, key: ObjectKey, reported: Reported) -> StatusRolledUp | None:
    """The status of an object, aggregated from its works and observations; None before there are any."""
    binding = reported.binding
    if not isinstance(binding, BindingRequested):
        return _ended(state, key, reported)
    shares = _shares(reported, binding)
    items = within_bounds(
        _item(cluster, work, reported, _problem(cluster, work, reported, binding, shares))
        for cluster, work in sorted(reported.works.items())
        if work.wanted and work.uid == binding.uid and cluster in state.clusters
    )
    where = state.effective(key, state.clusters)
    fully = fully_applied(frozenset(where.occupied), items)
    cleared = _cleared(state, reported)
    if not items and not cleared and reported.rollup is None:
        return None
    position = max((seq for _, seq in reported.observed.values()), default=0)
    return StatusRolledUp(
        key=key,
        uid=binding.uid,
        items=items,
        fully_applied=fully,
        observed_position=position,
        cleared=cleared,
        since=_since(reported.rollup, binding.uid, fully),
    )


def _since(before: StatusRolledUp | None, uid: str, fully: bool) -> float:
    """Since when an object is fully applied or not; 0 where it changes now."""
    if before is None or before.uid != uid or before.fully_applied != fully:
        return 0.0
    return before.since or before.provenance.decided_at


def _cleared(state: AggregatorState, reported: Reported) -> tuple[Cleared, ...]:
    """Clusters under direct eviction whose copy is gone: never written, seen to be absent since, or no member."""
    return tuple(
        Cleared(task.from_cluster, task.created_at)
        for task in removed_at_once(reported.tasks)
        if not task.removed and _is_clear(state, reported, task.from_cluster)
    )


def _is_clear(state: AggregatorState, reported: Reported, cluster: str) -> bool:
    work, entry = reported.works.get(cluster), reported.observed.get(cluster)
    if work is None or cluster not in state.clusters:
        return True
    if work.wanted or entry is None:
        return False
    return entry[0].absent and entry[0].work_seq >= work.seq


def _ended(state: AggregatorState, key: ObjectKey, reported: Reported) -> StatusRolledUp | None:
    """After a binding ended: the clusters that still hold a copy, closed once none does."""
    if reported.rollup is None:
        return None
    holding = tuple(
        _item(cluster, work, reported)
        for cluster, work in sorted(reported.works.items())
        if cluster in state.clusters and not _gone(cluster, reported)
    )
    return StatusRolledUp(key=key, uid=reported.rollup.uid, items=holding, closed=not holding)


def _gone(cluster: str, reported: Reported) -> bool:
    entry, work = reported.observed.get(cluster), reported.works[cluster]
    # A FederatedResourceQuota may have taken the place of the ended object.
    taken = work.wanted and reported.rollup is not None and work.uid != reported.rollup.uid
    return taken or entry is None or entry[0].absent


def _shares(reported: Reported, binding: BindingRequested) -> dict[str, int]:
    """The replicas assigned to each cluster, where they bound what it may report."""
    placed, template = reported.placement, reported.template
    if not binding.workload or not isinstance(placed, PlacementDecided) or placed.uid != binding.uid:
        return {}
    if isinstance(template, TemplateChanged) and template.labels.get(RETAIN_REPLICAS_LABEL) == LABEL_TRUE:
        return {}  # The members' own autoscalers decide the replicas.
    return {target.name: target.replicas for target in placed.clusters if target.replicas is not None}


def _problem(cluster: str, work: Copy, reported: Reported, binding: BindingRequested, shares: Mapping[str, int]) -> str:
    """Why the status that a cluster reports does not count; empty when it does."""
    entry = reported.observed.get(cluster)
    status = entry[0].status if entry is not None else UNSET
    if entry is None or not isinstance(status, Raw):
        return ""
    seen, template, generation = entry[0], reported.template, 0
    # A report on a work that was not read yet may be about a newer template, too.
    if isinstance(template, TemplateChanged) and template.uid == binding.uid and seen.work_seq <= work.seq:
        generation = template.generation
    share = None if work.overridden else shares.get(cluster)
    kind = (binding.api_version, binding.kind)
    problem = implausible(*kind, status, Given(most_replicas(share), generation))
    if not problem or share is None:
        return problem
    return implausible(*kind, status, Given(most_replicas(share, _counted(cluster, reported, kind)), generation))


def _counted(cluster: str, reported: Reported, kind: tuple[str, str]) -> int:
    """The replicas of a cluster that the last sum has."""
    items = reported.rollup.items if reported.rollup is not None else ()
    statuses = (item.status for item in items if item.cluster == cluster)
    return max((numbers(*kind, status).most for status in statuses if isinstance(status, Raw)), default=0)


def within_bounds(items: Iterable[ClusterStatusItem], most: int = LARGEST_SUM) -> tuple[ClusterStatusItem, ...]:
    """The items with statuses of `most` bytes together: the largest beyond that are left out, with a problem."""
    kept = tuple(items)
    sizes = {item.cluster: len(bytes(item.status)) for item in kept if isinstance(item.status, Raw)}
    total = sum(sizes.values())
    left: dict[str, int] = {}
    while total > most:
        largest = max(sizes, key=lambda name: (sizes[name], name))
        left[largest] = sizes.pop(largest)
        total -= left[largest]
    if not left:
        return kept
    why = f"those of all clusters together may have {most}"
    return tuple(
        replace(item, status=UNSET, problem=f"status: has {left[item.cluster]} bytes; {why}")
        if item.cluster in left
        else item
        for item in kept
    )


def _item(cluster: str, work: Copy, reported: Reported, problem: str = "") -> ClusterStatusItem:
    entry = reported.observed.get(cluster)
    if entry is None or entry[0].uid != work.uid or entry[0].absent:
        return ClusterStatusItem(cluster=cluster, applied=False, message=NOT_YET)
    seen = entry[0]
    if not seen.applied:
        return ClusterStatusItem(cluster=cluster, applied=False, message=seen.message)
    # What runs there is what was rendered last: that it is no longer what is asked for is its problem.
    item = ClusterStatusItem(cluster=cluster, applied=True, message=work.problem)
    if problem:
        return replace(item, problem=problem)
    # A status that could not be read is the one that was read before; the report has the reason.
    return replace(item, health=seen.health, status=seen.status, problem=shortened(seen.message))


def _same(before: StatusRolledUp, wanted: StatusRolledUp) -> bool:
    return (
        before.uid == wanted.uid
        and before.items == wanted.items
        and before.fully_applied == wanted.fully_applied
        and before.closed == wanted.closed
        and before.cleared == wanted.cleared
    )

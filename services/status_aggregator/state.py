"""Projects the placement, works and observations of each object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import NO_PROVENANCE, Provenance
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from services._rules.constants import RETAIN_REPLICAS_LABEL
from services._rules.facets import FacetEvent, ObjectFacets, ObjectStates, is_of_facet
from services._rules.quota.binding_usage import NO_REQUESTS, Requests, in_force, readable_requests
from services._rules.quota.usage_index import UsageIndex
from services.status_aggregator.quota_status import QuotaState

SUM_BYTES: Final = 32 << 10
"""Bytes of statuses that count as one sum more."""


AT_ONCE: Final = 10.0
"""Sums of one object that may follow one another as fast as they are decided."""
LONGEST_WAIT: Final = 7.0
"""Seconds that a sum waits at most because of those before it; earlier sums do not count."""


class Copy(Struct, frozen=True, gc=False):
    """A work of an object without its manifest, which aggregation does not read.

    `wanted` is false for a copy that was withdrawn; `at` is when that was decided, in seconds since 1970; `problem` is
    why what it should be could not be rendered. An `overridden` copy may have another number of replicas than its
    cluster's share. A `suspended` one is not written to its cluster.
    """

    uid: str
    seq: int
    at: float
    wanted: bool
    problem: str = ""
    overridden: bool = False
    suspended: bool = False


class Spent(Struct, frozen=True):
    """The recent sums of one object: a number that falls by one per second, as of a time (since 1970).

    A large sum counts as several.
    """

    sums: float = 0.0
    at: float = 0.0

    def after(self, now: float, size: int) -> Spent:
        """The same after another sum, with statuses of `size` bytes."""
        before = max(0.0, self.sums - max(0.0, now - self.at))
        return Spent(min(before + 1.0 + size / SUM_BYTES, AT_ONCE + LONGEST_WAIT), now)


NOTHING_SPENT: Final = Spent()


class Reported(ObjectFacets):
    """Every facet of one object that its status follows from; works and observations by cluster."""

    works: dict[str, Copy] = field(default_factory=dict)
    observed: dict[str, tuple[WorkObserved, int]] = field(default_factory=dict)
    spent: Spent = NOTHING_SPENT
    requests: Requests = NO_REQUESTS
    """What one replica takes, where quotas are enforced."""

    @property
    def in_force(self) -> Requests:
        """What one replica takes by the placement in force: requests count once they were admitted."""
        return in_force(self.placed, self.requests)

    @property
    def begun(self) -> bool:
        """Whether there is anything to sum: before the first work and without an eviction nothing follows."""
        return bool(self.works or self.observed or self.rollup is not None or self.eviction is not None)

    @property
    def ended(self) -> bool:
        """Whether every facet is closed, and no cluster shall hold a copy."""
        return super().ended and not any(copy.wanted for copy in self.works.values())


class AggregatorState(ObjectStates[Reported]):
    """The projection of the status aggregator."""

    kind = Reported
    writes = "rollup"
    clusters: set[str] = field(default_factory=set)
    limited: QuotaState = field(default_factory=QuotaState)
    """FederatedResourceQuotas, and what their namespaces use."""

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log, unless newer facts of it exist."""
        for key, _ in self.drop(purged):
            if self.limited.usage is not None:
                self.limited.usage.forget(key)
        for name in purged.clusters:
            if name not in self.clusters:
                for reported in self.objects.values():
                    copy = reported.works.get(name)
                    if copy is None or not copy.wanted:
                        reported.works.pop(name, None)
                        reported.observed.pop(name, None)


_NO_SPEC: Final = Raw(b"{}")


def fold(state: AggregatorState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one event and name the objects whose status may change by it."""
    if isinstance(event, PolicyChanged | PolicyDeleted):
        return state.limited.take(event)
    found = _fold(state, seq, subject, event)
    usage = state.limited.usage
    if isinstance(event, ClusterChanged | ClusterRemoved) and found is not _UNTOUCHED:
        quotas = state.limited.quotas.items()
        return [
            *found,
            *(key for key, quota in quotas if any(item.cluster == event.name for item in quota.assignments)),
        ]
    return found if usage is None or not is_of_facet(event) else [*found, *_used(state, usage, event)]


def _used(state: AggregatorState, usage: UsageIndex, event: FacetEvent) -> list[ObjectKey]:
    """Follow a fact in what its namespace uses; the key of its quotas."""
    reported = state.objects[event.key]
    if isinstance(event, BindingRequested):
        reported.requests = readable_requests(msgspec.json.decode(event.spec))
    before = dict(usage.of(event.key))
    if isinstance(reported.binding, BindingRequested):
        usage.stands(event.key, reported.in_force, reported.targets)
    else:
        usage.stands(event.key, NO_REQUESTS, ())
    return state.limited.used(event.key.namespace) if usage.of(event.key) != before else []


_UNTOUCHED: Final[tuple[ObjectKey, ...]] = ()


def _fold(state: AggregatorState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    match event:
        case WorkObserved():
            kept = replace(event, digest="", member_uid="", operation="", drift=(), provenance=NO_PROVENANCE)
            state.of(event.key).observed[event.cluster] = (kept, seq)
            return (event.key,)
        case WorkRendered() | WorkWithdrawn():
            state.of(event.key).works[event.cluster] = _copy(event, seq)
            return (event.key,)
        case ClusterChanged():
            if event.name in state.clusters:
                return _UNTOUCHED
            state.clusters.add(event.name)
            return _touching(state, event.name)
        case ClusterRemoved():
            state.clusters.discard(event.name)
            return _touching(state, event.name)
        case ReplicasDescheduled():
            # It changes how many replicas a cluster has, not which clusters.
            if state.limited.usage is not None:
                state.take(seq, subject, event)
            return ()
        case _ if is_of_facet(event):
            reported = state.take(seq, subject, _slim(event))
            if isinstance(event, StatusRolledUp):
                size = sum(len(bytes(item.status)) for item in event.items if isinstance(item.status, Raw))
                reported.spent = reported.spent.after(event.provenance.decided_at, size)
            # A sum begins with works and evictions; the template's status follows it once it is on the log.
            touched = (event.key, *state.follow(event.key))
            return [key for key in touched if (found := state.objects.get(key)) is not None and found.begun]
        case _:
            return ()


def _slim(event: FacetEvent) -> FacetEvent:
    """The same without what no sum reads."""
    match event:
        case TemplateChanged():
            labels = {name: value for name, value in event.labels.items() if name == RETAIN_REPLICAS_LABEL}
            return replace(event, labels=labels, annotations={}, provenance=NO_PROVENANCE)
        case BindingRequested():
            return replace(event, spec=_NO_SPEC, dependencies=UNSET, provenance=NO_PROVENANCE)
        case PlacementDecided() | PlacementFailed():
            as_of = Provenance(as_of=event.provenance.as_of)
            return replace(event, placement=UNSET, estimates=(), provenance=as_of)
        case _:
            return event


def _copy(event: WorkEvent, seq: int) -> Copy:
    if isinstance(event, WorkWithdrawn):
        return Copy(event.uid, seq, event.provenance.decided_at, wanted=False)
    overridden = bool(event.cluster_overrides or event.overrides)
    return Copy(event.uid, seq, event.provenance.decided_at, True, event.problem, overridden, event.suspended)


def _touching(state: AggregatorState, cluster: str) -> list[ObjectKey]:
    return [key for key, reported in state.objects.items() if cluster in reported.works or cluster in reported.observed]

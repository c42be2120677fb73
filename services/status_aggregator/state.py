"""Projects the placement, works and observations of each object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Raw, Struct, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import NO_PROVENANCE, Provenance
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged, TemplateDeleted, TemplateEvent
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import rollup
from services._rules.constants import RETAIN_REPLICAS_LABEL
from services._rules.history.retention import all_closed
from services._rules.interpreter.configuration import Target, concerns

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
    cluster's share.
    """

    uid: str
    seq: int
    at: float
    wanted: bool
    problem: str = ""
    overridden: bool = False


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


class Reported(Struct):
    """Every facet of one object that its status follows from; works and observations by cluster."""

    template: TemplateEvent | None = None
    binding: BindingEvent | None = None
    placement: PlacementEvent | None = None
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    works: dict[str, Copy] = field(default_factory=dict)
    observed: dict[str, tuple[WorkObserved, int]] = field(default_factory=dict)
    rollup: StatusRolledUp | None = None
    rollup_seq: int = 0
    spent: Spent = NOTHING_SPENT

    @property
    def begun(self) -> bool:
        """Whether there is anything to sum: before the first work and without an eviction nothing follows."""
        return bool(self.works or self.observed or self.rollup is not None or self.eviction is not None)


class AggregatorState(Struct):
    """The projection, and the position of the last sum of every object by its subject."""

    objects: dict[ObjectKey, Reported] = field(default_factory=dict)
    clusters: set[str] = field(default_factory=set)
    subjects: dict[str, int] = field(default_factory=dict)

    def of(self, key: ObjectKey) -> Reported:
        """Facets of one object, made on first mention."""
        reported = self.objects.get(key)
        if reported is None:
            reported = self.objects[key] = Reported()
        return reported


_NO_SPEC: Final = Raw(b"{}")


def fold(state: AggregatorState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one event and name the objects whose status may change by it."""
    match event:
        case WorkObserved():
            kept = replace(event, digest="", member_uid="", operation="", drift=(), provenance=NO_PROVENANCE)
            state.of(event.key).observed[event.cluster] = (kept, seq)
            return (event.key,)
        case WorkRendered() | WorkWithdrawn():
            state.of(event.key).works[event.cluster] = _copy(event, seq)
            return (event.key,)
        case StatusRolledUp():
            state.subjects[subject] = seq
            reported = state.of(event.key)
            reported.rollup, reported.rollup_seq = event, seq
            size = sum(len(bytes(item.status)) for item in event.items if isinstance(item.status, Raw))
            reported.spent = reported.spent.after(event.provenance.decided_at, size)
            # The template's status follows the sum once it is on the log.
            return (event.key,)
        case TemplateChanged():
            reported = state.of(event.key)
            labels = {name: value for name, value in event.labels.items() if name == RETAIN_REPLICAS_LABEL}
            reported.template = replace(event, labels=labels, annotations={}, provenance=NO_PROVENANCE)
        case TemplateDeleted():
            reported = state.of(event.key)
            reported.template = event
        case BindingRequested():
            reported = state.of(event.key)
            reported.binding = replace(event, spec=_NO_SPEC, provenance=NO_PROVENANCE)
        case BindingReleased():
            reported = state.of(event.key)
            reported.binding = event
        case PlacementDecided() | PlacementFailed():
            reported = state.of(event.key)
            as_of = Provenance(as_of=event.provenance.as_of)
            reported.placement = replace(event, placement=UNSET, estimates=(), provenance=as_of)
        case PlacementReleased():
            reported = state.of(event.key)
            reported.placement = event
        case EvictionRequested() | EvictionFinished():
            reported = state.of(event.key)
            reported.eviction, reported.eviction_seq = event, seq
            return (event.key,)
        case ClusterChanged():
            if event.name in state.clusters:
                return ()
            state.clusters.add(event.name)
            return _touching(state, event.name)
        case ClusterRemoved():
            state.clusters.discard(event.name)
            return _touching(state, event.name)
        case _:
            return ()
    return (event.key,) if reported.begun else ()


def _copy(event: WorkEvent, seq: int) -> Copy:
    if isinstance(event, WorkWithdrawn):
        return Copy(event.uid, seq, event.provenance.decided_at, wanted=False)
    overridden = bool(event.cluster_overrides or event.overrides)
    return Copy(event.uid, seq, event.provenance.decided_at, True, event.problem, overridden)


def of_kinds(state: AggregatorState, targets: frozenset[Target]) -> list[ObjectKey]:
    """The objects of these kinds, or all objects without any."""
    if not targets:
        return []
    return [
        key
        for key, reported in state.objects.items()
        if isinstance(template := reported.template, TemplateChanged)
        and concerns(targets, template.api_version, template.kind)
    ]


def _touching(state: AggregatorState, cluster: str) -> list[ObjectKey]:
    return [key for key, reported in state.objects.items() if cluster in reported.works or cluster in reported.observed]


def forget(state: AggregatorState, purged: Purged) -> None:
    """Drop objects that are gone from the log, unless newer facts of them exist."""
    for key in (gone.key for gone in purged.objects):
        known = state.objects.get(key)
        if known is None:
            continue
        facts = (known.template, known.binding, known.placement, known.eviction, known.rollup)
        if all_closed(*facts) and not any(copy.wanted for copy in known.works.values()):
            del state.objects[key]
            state.subjects.pop(rollup(key), None)
    for name in purged.clusters:
        if name not in state.clusters:
            _forget_cluster(state, name)


def _forget_cluster(state: AggregatorState, name: str) -> None:
    for reported in state.objects.values():
        copy = reported.works.get(name)
        if copy is None or not copy.wanted:
            reported.works.pop(name, None)
            reported.observed.pop(name, None)

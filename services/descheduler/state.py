"""Projects the replicas that every Deployment was assigned, those ready, and those already descheduled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import descheduling as descheduling_subject
from services._rules.effective import current_targets, lowers
from services._rules.history.retention import all_closed
from services._rules.scheduling.descheduling import Share, follows_room, shares


class Answers(Struct, frozen=True):
    """Replicas without a node by cluster, and the positions of the facets that the question was made from."""

    seen: tuple[int, ...]
    unschedulable: Mapping[str, int]


class Given(Struct):
    """Every facet of one Deployment that decides whether replicas are taken back."""

    binding: BindingEvent | None = None
    binding_seq: int = 0
    placement: PlacementEvent | None = None
    placement_seq: int = 0
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    rollup: StatusRolledUp | None = None
    rollup_seq: int = 0
    descheduling: ReplicasDescheduled | None = None
    descheduling_seq: int = 0

    @property
    def placed(self) -> PlacementDecided | PlacementFailed | None:
        """The placement in force, of a binding that is there and of the same uid."""
        placement, binding = self.placement, self.binding
        if isinstance(placement, PlacementDecided | PlacementFailed) and isinstance(binding, BindingRequested):
            return placement if placement.uid == binding.uid else None
        return None

    @property
    def standing(self) -> tuple[LoweredCluster, ...]:
        """Clusters of the placement in force that were lowered already."""
        placed, event = self.placed, self.descheduling
        if placed is None or event is None or not lowers(event, placed.uid, self.placement_seq):
            return ()
        return event.clusters

    @property
    def seen(self) -> tuple[int, ...]:
        """Positions that a query refers to: once one changed, its answer is outdated."""
        return (self.placement_seq, self.eviction_seq, self.descheduling_seq)

    def short(self) -> tuple[Share, ...]:
        """What each cluster was given, when replicas may be taken back at all and some cluster lacks ready ones."""
        placed, binding = self.placed, self.binding
        if placed is None or not isinstance(binding, BindingRequested):
            return ()
        if not follows_room(binding.api_version, binding.kind, placed.placement):
            return ()
        targets = current_targets(placed, self.eviction, self.eviction_seq, self.descheduling, self.placement_seq)
        rollup = self.rollup
        found = shares(targets, rollup.items if rollup is not None and rollup.uid == binding.uid else ())
        return found if any(share.short for share in found) else ()


class DeschedulerState(Struct):
    """The projection; `answers` are those of the estimator that no decision has used yet."""

    objects: dict[ObjectKey, Given] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    answers: dict[ObjectKey, Answers] = field(default_factory=dict)

    def of(self, key: ObjectKey) -> Given:
        """Facets of one object, made on first mention."""
        given = self.objects.get(key)
        if given is None:
            given = self.objects[key] = Given()
        return given


def fold(state: DeschedulerState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one fact and name the object that may have to give replicas back by it."""
    match event:
        case BindingRequested() | BindingReleased():
            given = state.of(event.key)
            given.binding, given.binding_seq = event, seq
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            given = state.of(event.key)
            given.placement, given.placement_seq = event, seq
        case EvictionRequested() | EvictionFinished():
            given = state.of(event.key)
            given.eviction, given.eviction_seq = event, seq
        case StatusRolledUp():
            given = state.of(event.key)
            given.rollup, given.rollup_seq = event, seq
        case ReplicasDescheduled():
            given = state.of(event.key)
            given.descheduling, given.descheduling_seq = event, seq
            state.subjects[subject] = seq
        case _:
            return ()
    return (event.key,)


def forget(state: DeschedulerState, purged: Purged) -> None:
    """Drop objects that are gone from the log, unless newer facts of them exist."""
    for key in (gone.key for gone in purged.objects):
        given = state.objects.get(key)
        if given is not None and all_closed(given.binding, given.placement, given.eviction, given.rollup):
            del state.objects[key]
            state.answers.pop(key, None)
            state.subjects.pop(descheduling_subject(key), None)

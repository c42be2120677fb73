"""Folds the facets of objects: the last event of each with its position, and what follows from all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeGuard, TypeVar

from msgspec import Struct, field

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased, TargetCluster
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged, TemplateDeleted, TemplateEvent
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import facet as subject_of
from services._rules.dependencies.dependency_index import DependencyIndex, Requirement
from services._rules.effective import Effective, current_targets, effective, lowers, tasks_of
from services._rules.history.retention import all_closed
from services._rules.interpreter.configuration import Target, concerns

FacetEvent = (
    TemplateEvent
    | BindingEvent
    | PlacementEvent
    | EvictionEvent
    | ReplicasDescheduled
    | CapacityEstimated
    | StatusRolledUp
)
_FACETS: Final[Mapping[type[Any], tuple[str, str]]] = {
    event: (name, f"{name}_seq")
    for name, events in {
        "template": (TemplateChanged, TemplateDeleted),
        "binding": (BindingRequested, BindingReleased),
        "placement": (PlacementDecided, PlacementFailed, PlacementReleased),
        "eviction": (EvictionRequested, EvictionFinished),
        "descheduling": (ReplicasDescheduled,),
        "estimate": (CapacityEstimated,),
        "rollup": (StatusRolledUp,),
    }.items()
    for event in events
}
"""The fields that an event is kept in, with its position."""
_POSITIONS: Final = dict(_FACETS.values())


def is_of_facet(event: Known) -> TypeGuard[FacetEvent]:
    """Whether an event is of a facet that is kept of each object; works and observations are of a cluster as well."""
    return type(event) in _FACETS


class ObjectFacets(Struct):
    """The last event of every facet of one object that a service reads, with its position (0: none was read)."""

    template: TemplateEvent | None = None
    template_seq: int = 0
    binding: BindingEvent | None = None
    binding_seq: int = 0
    placement: PlacementEvent | None = None
    placement_seq: int = 0
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    descheduling: ReplicasDescheduled | None = None
    descheduling_seq: int = 0
    estimate: CapacityEstimated | None = None
    estimate_seq: int = 0
    rollup: StatusRolledUp | None = None
    rollup_seq: int = 0

    @property
    def uid(self) -> str:
        """Uid of the template that the binding refers to; empty without a binding."""
        return self.binding.uid if self.binding is not None else ""

    @property
    def unreleased(self) -> PlacementDecided | PlacementFailed | None:
        """The last placement unless it was released, of whatever uid."""
        placement = self.placement
        return placement if isinstance(placement, PlacementDecided | PlacementFailed) else None

    @property
    def placed(self) -> PlacementDecided | PlacementFailed | None:
        """The placement in force: the unreleased one, if it is of the present uid."""
        placement = self.placement
        if isinstance(placement, PlacementDecided | PlacementFailed) and placement.uid == self.uid:
            return placement
        return None

    @property
    def tasks(self) -> tuple[EvictionTask, ...]:
        """Evictions under way for the present uid."""
        return tasks_of(self.eviction, self.uid)

    @property
    def targets(self) -> tuple[TargetCluster, ...]:
        """Clusters that run it: those placed, without what was evicted or descheduled since."""
        return current_targets(self.placed, self.eviction, self.eviction_seq, self.descheduling, self.placement_seq)

    @property
    def lowered_seq(self) -> int:
        """Position of the descheduling of the placement in force, 0 for none."""
        return self.descheduling_seq if lowers(self.descheduling, self.uid, self.placement_seq) else 0

    @property
    def ended(self) -> bool:
        """Whether every facet is closed: then the object may be forgotten."""
        return all_closed(self.template, self.binding, self.placement, self.eviction, self.rollup)

    def runs_in(self, cluster: str) -> bool:
        """Whether the placement in force names a cluster."""
        placed = self.placed
        return placed is not None and any(target.name == cluster for target in placed.clusters)

    def effective(self, clusters: Iterable[str], required_by: Iterable[TargetCluster] = ()) -> Effective:
        """The clusters that hold the object, of those that are members; `required_by` are those of its owners."""
        return effective(
            self.binding,
            self.placement,
            self.eviction,
            eviction_seq=self.eviction_seq,
            descheduling=self.descheduling,
            placement_seq=self.placement_seq,
            clusters=clusters,
            required_by=required_by,
        )

    def seen(self, *facets: str) -> Provenance:
        """The positions of facets that a decision read; those that are not there are left out."""
        return Provenance(own={facet: seq for facet in facets if (seq := getattr(self, _POSITIONS[facet]))})


F = TypeVar("F", bound=ObjectFacets)


def requirement_of(binding: BindingRequested, targets: Iterable[TargetCluster]) -> Requirement:
    """What a binding requires where it runs; what its policy asks for is left out."""
    return Requirement(binding.requires, tuple(target.name for target in targets))


class ServiceState(Struct):
    """The projection of a service, with the positions of the last events that it wrote itself, by subject."""

    subjects: dict[str, int] = field(default_factory=dict)

    def last_seq(self, subject: str) -> int:
        """Position of the last event of a subject that the service writes, 0 for none (or when it is not needed)."""
        return self.subjects.get(subject, 0)

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log; whatever is not at its end stays.

        It may come before or after the events of a new object of the same name, or not at all.
        """


class ObjectStates(ServiceState, Generic[F]):
    """The projection of a service that decides objects by their facets."""

    kind: ClassVar[type[Any]] = ObjectFacets
    """What is remembered of each object."""
    writes: ClassVar[str] = ""
    """The facet that the service writes."""
    objects: dict[ObjectKey, F] = field(default_factory=dict)
    required: DependencyIndex = field(default_factory=DependencyIndex)
    """Where objects are required by others; only services that call `follow` fill it."""

    def of(self, key: ObjectKey) -> F:
        """Facets of one object, made on first mention."""
        facets = self.objects.get(key)
        if facets is None:
            facets = self.objects[key] = self.kind()
        return facets

    def take(self, seq: int, subject: str, event: FacetEvent) -> F:
        """Keep an event as the last one of its facet; the facets of its object."""
        facets = self.objects.get(event.key) or self.of(event.key)
        facet, position = _FACETS[type(event)]
        setattr(facets, facet, event)
        setattr(facets, position, seq)
        if facet == self.writes:
            self.subjects[subject] = seq
        return facets

    def follow(self, key: ObjectKey) -> list[ObjectKey]:
        """Take in what an object requires and where it runs now; the dependencies that go to other clusters by that."""
        facets = self.objects[key]
        binding = facets.binding
        if not isinstance(binding, BindingRequested) or not binding.requires:
            return self.required.update(key, None) if key in self.required else []
        return self.required.update(key, requirement_of(binding, facets.targets))

    def effective(self, key: ObjectKey, clusters: Iterable[str]) -> Effective:
        """The clusters that hold an object, of those that are members: its own, and those it is required in."""
        return self.objects[key].effective(clusters, self.required.targets(key))

    def running_in(self, cluster: str) -> list[ObjectKey]:
        """Objects whose placement in force names a cluster."""
        return [key for key, facets in self.objects.items() if facets.runs_in(cluster)]

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log, unless newer facts of it exist."""
        self.drop(purged)

    def of_kinds(self, kinds: frozenset[Target]) -> list[ObjectKey]:
        """Objects whose template is of one of these kinds; none without any."""
        return [
            key
            for key, facets in self.objects.items()
            if kinds
            and isinstance(template := facets.template, TemplateChanged)
            and concerns(kinds, template.api_version, template.kind)
        ]

    def drop(self, purged: Purged) -> list[tuple[ObjectKey, F]]:
        """Drop the objects that are gone from the log, unless newer facts of them exist; returns them."""
        dropped = []
        for key in (gone.key for gone in purged.objects):
            facets = self.objects.get(key)
            if facets is not None and facets.ended:
                del self.objects[key]
                self.subjects.pop(subject_of(self.writes, key), None)
                dropped.append((key, facets))
        return dropped

"""Projects what clusters report of the Services that they export, whether they are heard, and what was collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, UnsetType, field

from schemas.codec import Known
from schemas.endpoints import ServiceSlice
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.events.template import TemplateChanged, TemplateDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from services._rules.endpoints.health_gates import ClusterHealth
from services._rules.endpoints.locality import Place, place_of
from services._rules.endpoints.reported_slices import is_export
from services._rules.facets import ServiceState
from services._rules.kubernetes.taints import Taint
from services.networking.backing_state import BackingState, FacetOfBacking, is_about_service
from services.networking.dispatching.sharing_state import SharedServices
from services.networking.ingresses.backend_places import BackendPlaces


class ServiceName(Struct, frozen=True, order=True, array_like=True):
    """A Service by its name, the same in all clusters."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"services/{self.namespace}/{self.name}"


class Export(Struct, frozen=True):
    """What one cluster reports of a Service; slices are None where it has not listed them."""

    slices: tuple[ServiceSlice, ...] | None
    problem: str = ""
    at: float = 0.0
    position: int = 0
    """Position of the report in OBSERVED."""


class ExportedService(Struct):
    """One Service by cluster: what is reported, where it is withdrawn, and what was collected by the slice's name."""

    reports: dict[str, Export] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """Uid of the ServiceExport that each cluster was given; a cluster without one exports nothing."""
    collected: dict[tuple[str, str], EndpointsCollected] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.reports or self.asked or self.collected)


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str = ""


class _Status(Struct):
    conditions: list[_Condition] | None = None


class _Spec(Struct):
    taints: list[Taint] | None = None


class _Cluster(Struct):
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


_cluster: Final = msgspec.json.Decoder(_Cluster)


class NetworkingState(ServiceState):
    """The projection: Services by name, members by name, and on what endpoints of Services depend."""

    services: dict[ServiceName, ExportedService] = field(default_factory=dict)
    members: dict[str, ClusterHealth] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """Where members are."""
    backing: BackingState = field(default_factory=BackingState)
    shared: SharedServices = field(default_factory=SharedServices)
    """MultiClusterServices."""
    backends: BackendPlaces = field(default_factory=BackendPlaces)
    """Where the Services are that MultiClusterIngresses lead to."""

    def of(self, name: ServiceName) -> ExportedService:
        """One Service, made on first mention."""
        found = self.services.get(name)
        if found is None:
            found = self.services[name] = ExportedService()
        return found

    def exported_by(self, cluster: str) -> Iterator[ServiceName]:
        """Services that a cluster exports, or of which something is collected from it."""
        for name, found in self.services.items():
            if cluster in found.asked or cluster in found.reports or any(by == cluster for by, _ in found.collected):
                yield name

    def concerned(self, cluster: str) -> list[ServiceName]:
        """Services that a cluster exports or imports."""
        found = dict.fromkeys(self.exported_by(cluster))
        found.update(
            dict.fromkeys(
                name for name in self.services if cluster in self.backing.importers(name.namespace, name.name)
            )
        )
        return list(found)

    @property
    def tainted(self) -> bool:
        """Whether some member drives out what runs there."""
        return any(health.taints for health in self.members.values())

    def forget(self, purged: Purged) -> None:
        """Drop Services that nothing is known of: what is purged was withdrawn or released before."""
        self.backing.forget(purged)
        for gone in purged.objects:
            name = ServiceName(gone.key.namespace, gone.key.name)
            if is_export(gone.key) and name in self.services and self.services[name].nothing:
                del self.services[name]


def fold(state: NetworkingState, seq: int, subject: str, event: Known) -> Iterable[ServiceName]:
    """Apply one event; the Services whose endpoints may be others."""
    shared = [ServiceName(*name) for name in state.shared.take(event)]
    return [*_folded(state, seq, subject, event), *shared]


def _folded(state: NetworkingState, seq: int, subject: str, event: Known) -> Iterable[ServiceName]:
    match event:
        case WorkRendered() if is_export(event.key):
            return _asked(state, ServiceName(event.key.namespace, event.key.name), event)
        case WorkWithdrawn() if is_export(event.key):
            return _asked(state, ServiceName(event.key.namespace, event.key.name), event)
        case WorkObserved() if is_export(event.key):
            return _reported(state, seq, event)
        case EndpointsCollected():
            state.subjects[subject] = seq
            name = ServiceName(event.namespace, event.service)
            state.of(name).collected[event.cluster, event.name] = event
            return (name,)
        case EndpointsReleased():
            state.subjects[subject] = seq
            name = ServiceName(event.namespace, event.service)
            state.of(name).collected.pop((event.cluster, event.name), None)
            return (name,)
        case ClusterChanged():
            health, place = _health(event), place_of(event.manifest)
            if (state.members.get(event.name), state.places.get(event.name)) == (health, place):
                return ()
            state.members[event.name], state.places[event.name] = health, place
            return state.concerned(event.name)
        case ClusterRemoved():
            state.members.pop(event.name, None)
            state.places.pop(event.name, None)
            return state.concerned(event.name)
        case (
            TemplateChanged()
            | TemplateDeleted()
            | PlacementDecided()
            | PlacementFailed()
            | PlacementReleased()
            | EvictionRequested()
            | EvictionFinished()
        ):
            return _backed(state, seq, event)
        case _:
            return ()


def _asked(state: NetworkingState, name: ServiceName, event: WorkRendered | WorkWithdrawn) -> Iterable[ServiceName]:
    found = state.of(name)
    if isinstance(event, WorkRendered):
        if found.asked.get(event.cluster) == event.uid:
            return ()
        found.asked[event.cluster] = event.uid
    else:
        found.asked.pop(event.cluster, None)
        found.reports.pop(event.cluster, None)
    return (name,)


def _reported(state: NetworkingState, seq: int, event: WorkObserved) -> Iterable[ServiceName]:
    name = ServiceName(event.key.namespace, event.key.name)
    found = state.of(name)
    if event.absent:
        found.reports.pop(event.cluster, None)
    else:
        slices = None if isinstance(event.endpoints, UnsetType) else event.endpoints
        found.reports[event.cluster] = Export(slices, event.message, event.at, seq)
    return (name,)


def _backed(state: NetworkingState, seq: int, event: FacetOfBacking) -> Iterable[ServiceName]:
    """The Services of which other clusters may count, or be used from other places."""
    key = event.key
    if not state.backing.take(seq, event):
        return ()
    name = ServiceName(key.namespace, key.name)
    if is_about_service(key):
        return (name,) if name in state.services else ()
    if not (state.tainted or state.backing.evicts(key.namespace)):
        return ()
    return [name for name in state.services if name.namespace == key.namespace]


def _health(event: ClusterChanged) -> ClusterHealth:
    """Whether a member may be used."""
    found = _cluster.decode(event.manifest)
    taints = tuple(taint for taint in found.spec.taints or () if taint.effect == "NoExecute")
    # A member that was just joined has no condition yet.
    ready = next((item for item in found.status.conditions or () if item.type == "Ready"), _Condition(status="True"))
    if ready.status == "True":
        return ClusterHealth(leaving=event.deleting, taints=taints)
    # Without a moment that can be read, it counts from when this was noticed.
    since = _seconds(ready.last_transition_time) or event.provenance.decided_at
    return ClusterHealth(ready=False, since=since, why=ready.reason, leaving=event.deleting, taints=taints)


def _seconds(text: str) -> float:
    """Seconds since 1970 of a moment as API servers write it; 0 for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0

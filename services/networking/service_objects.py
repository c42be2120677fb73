"""What the control plane has of one Service, as decisions read it, and what they ask to be written there."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.constants import (
    EXPORTS,
    MULTI_CLUSTER_SERVICE,
    MULTICLUSTER_API,
    MULTICLUSTER_GROUP,
    NETWORKING_API,
)
from services._rules.endpoints.derived_services import TOPOLOGY_OFF, DerivedService, ServiceImport
from services._rules.endpoints.imported_slices import ImportedSlice
from services._rules.endpoints.multi_cluster_services import marker_key
from services._rules.kubernetes.event_objects import Involved, Note
from services.networking.dispatching.provided_endpoints import SharedObject
from services.networking.state import ServiceName

SERVICES: Final = "services"
SLICES: Final = "endpointslices"


class ExportObject(Struct, frozen=True):
    """A ServiceExport of the control plane and the conditions that it shows."""

    uid: str
    generation: int
    conditions: tuple[Manifest, ...] = ()


class ControlObjects(Struct):
    """Everything about one Service; None and empty where there is no such object."""

    export: ExportObject | None = None
    asked: ServiceImport | None = None
    derived: DerivedService | None = None
    slices: dict[str, ImportedSlice] = field(default_factory=dict)
    shared: SharedObject | None = None
    """The MultiClusterService of its name."""

    @property
    def spreads(self) -> bool:
        """Whether clients may be kept to endpoints near them; without an import there are none."""
        return self.asked is not None and self.asked.topology_mode != TOPOLOGY_OFF

    @property
    def nothing(self) -> bool:
        """Whether there is no object of it."""
        return not (self.export or self.asked or self.derived or self.slices or self.shared)


class ReadManifest(Struct, frozen=True):
    """Read the manifest of an object of the Service's namespace, by its digest."""

    service: ServiceName
    digest: str


class PutSlice(Struct, frozen=True):
    """Write an EndpointSlice, unless its name is taken."""

    service: ServiceName
    item: ImportedSlice


class DropSlice(Struct, frozen=True):
    """Delete an imported EndpointSlice."""

    service: ServiceName
    name: str


class PutService(Struct, frozen=True):
    """Write the derived Service of an import, unless its name is taken."""

    service: ServiceName
    given: ServiceImport


class DropService(Struct, frozen=True):
    """Delete the derived Service with this uid."""

    service: ServiceName
    uid: str


class ShowAddresses(Struct, frozen=True):
    """Write the addresses of an import into the status of its derived Service."""

    service: ServiceName
    ips: tuple[str, ...]


class ShowStatus(Struct, frozen=True):
    """Write the status of a ServiceExport, ServiceImport or MultiClusterService (`plural`) with this uid."""

    service: ServiceName
    plural: str
    uid: str
    status: Manifest


class Tell(Struct, frozen=True):
    """Record an Event; without a note that nothing is wrong with an object any more."""

    about: ObjectKey
    note: Note | None


class TellOf(Struct, frozen=True):
    """Record Events about an object that were not recorded since the decision before; others have ended."""

    about: ObjectKey
    notes: tuple[Note, ...]


def shared_service(name: ServiceName, uid: str) -> Involved:
    """The MultiClusterService of a Service, as Events name it."""
    return Involved(marker_key(name.namespace, name.name), uid, NETWORKING_API, MULTI_CLUSTER_SERVICE)


def object_key(plural: str, name: ServiceName) -> ObjectKey:
    """Key of the ServiceExport or ServiceImport of a Service."""
    return ObjectKey(MULTICLUSTER_GROUP, plural, name.namespace, name.name)


def involved(plural: str, name: ServiceName, uid: str) -> Involved:
    """The ServiceExport or ServiceImport of a Service, as Events name it."""
    kind = "ServiceExport" if plural == EXPORTS else "ServiceImport"
    return Involved(object_key(plural, name), uid, MULTICLUSTER_API, kind)

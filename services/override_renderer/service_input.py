"""Projects what rendering reads of MultiClusterServices: the objects, slices that count, and members as partners."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct, field

from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import ObjectKey
from services._rules.endpoints.dispatched_slices import DispatchedSlices
from services._rules.endpoints.multi_cluster_services import (
    Partner,
    SharedService,
    marker_key,
    partner_of,
    read_shared_service,
)

_Name = tuple[str, str]


class ServiceInput(Struct):
    """MultiClusterServices by namespace and name, and what their works are made of."""

    asked: dict[_Name, SharedService] = field(default_factory=dict)
    manifests: dict[_Name, Raw] = field(default_factory=dict)
    slices: DispatchedSlices = field(default_factory=DispatchedSlices)
    partners: dict[str, Partner] = field(default_factory=dict)

    def wanted_keys(self) -> list[ObjectKey]:
        """Keys of all works that are asked for."""
        return [key for name in self.asked for key in self._of(name)]

    def _of(self, name: _Name) -> list[ObjectKey]:
        return [marker_key(*name), *self.slices.of(*name)]

    def changed(self, event: PolicyChanged | PolicyDeleted) -> list[ObjectKey]:
        """Take in a fact about a MultiClusterService; the works that may be others."""
        name = (event.key.namespace, event.key.name)
        before = self.asked.pop(name, None)
        self.manifests.pop(name, None)
        service = read_shared_service(event) if isinstance(event, PolicyChanged) else None
        if service is not None and service.cross_cluster and isinstance(event, PolicyChanged):
            self.asked[name] = service
            self.manifests[name] = event.manifest
        return self._of(name) if before is not None or name in self.asked else []

    def collected(self, event: EndpointsCollected | EndpointsReleased) -> Iterable[ObjectKey]:
        """Take in a fact about endpoints; the works that may be others."""
        return self.slices.take(event)

    def wants(self, key: ObjectKey) -> bool:
        """Whether a slice that was collected is of a Service that a MultiClusterService is about."""
        source = self.slices.sources.get(key)
        return source is not None and (source.namespace, source.service) in self.asked

    def met(self, event: ClusterChanged | ClusterRemoved) -> list[ObjectKey]:
        """Take in a fact about a cluster; the works that may be others."""
        before = self.partners.get(event.name)
        if isinstance(event, ClusterRemoved) or event.deleting:
            self.partners.pop(event.name, None)
        else:
            self.partners[event.name] = partner_of(event)
        return self.wanted_keys() if self.partners.get(event.name) != before else []

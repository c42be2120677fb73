"""What a MultiClusterService asks for, and which clusters can take part in it; docs/sources.md#services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.events.cluster import ClusterChanged
from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.constants import (
    DISCOVERY_API,
    MULTI_CLUSTER_SERVICE,
    MULTI_CLUSTER_SERVICE_ID_LABEL,
    MULTI_CLUSTER_SERVICES,
    NETWORKING_GROUP,
)

CROSS_CLUSTER: Final = "CrossCluster"
LOAD_BALANCER: Final = "LoadBalancer"

# Why a cluster does not take part, as reasons of Events.
NOT_FOUND: Final = "ClusterNotFound"
NOT_READY: Final = "SyncServiceFailed"
INCOMPATIBLE: Final = "APIIncompatible"


class Partner(Struct, frozen=True):
    """What a MultiClusterService has to know of a member."""

    ready: bool
    lacks_slices: bool = False
    """Whether it is known to serve no EndpointSlices."""


class SharedService(Struct, frozen=True):
    """One MultiClusterService; empty providers or consumers are all members."""

    namespace: str
    name: str
    uid: str
    id: str
    """The permanent id in its label; empty before it has one."""
    type: str
    providers: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    since: float = 0.0
    """When it was recorded as it is, in seconds since 1970."""

    @property
    def key(self) -> PolicyKey:
        """Key of its facts."""
        return PolicyKey(MULTI_CLUSTER_SERVICE, self.namespace, self.name)

    @property
    def cross_cluster(self) -> bool:
        """Whether clusters get endpoints of each other."""
        return self.type == CROSS_CLUSTER

    def provides(self, cluster: str) -> bool:
        """Whether a cluster is to provide endpoints."""
        return not self.providers or cluster in self.providers

    def consumes(self, cluster: str, provider: str) -> bool:
        """Whether a cluster is to get the endpoints of a provider; none gets its own."""
        return cluster != provider and (not self.consumers or cluster in self.consumers)

    def provider_names(self, members: Iterable[str]) -> list[str]:
        """All providers by name, members or not."""
        return sorted(set(self.providers or members))

    def consumer_names(self, members: Iterable[str]) -> list[str]:
        """All consumers by name, members or not."""
        return sorted(set(self.consumers or members))

    def clusters(self, members: Iterable[str]) -> list[str]:
        """Where the Service itself goes: to all of both sides; every member where one side names none."""
        if not self.providers or not self.consumers:
            return sorted({*members, *self.providers, *self.consumers})
        return sorted({*self.providers, *self.consumers})


class _Named(Struct, frozen=True):
    name: str = ""


class _Range(Struct, frozen=True, rename="camel"):
    cluster_names: tuple[str, ...] | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    types: tuple[str, ...] | None = None
    provider_clusters: tuple[_Named, ...] | None = None
    consumer_clusters: tuple[_Named, ...] | None = None
    service_provision_clusters: tuple[str, ...] | None = None
    service_consumption_clusters: tuple[str, ...] | None = None
    range: _Range = _Range()


class _Metadata(Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Object(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Served(Struct, frozen=True):
    kind: str = ""


class _ServedGroup(Struct, frozen=True, rename="camel"):
    group_version: str = ""
    resources: tuple[_Served, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] | None = None
    api_enablements: tuple[_ServedGroup, ...] | None = None


class _Cluster(Struct, frozen=True):
    status: _Status | None = None


_object: Final = msgspec.json.Decoder(_Object)
_cluster: Final = msgspec.json.Decoder(_Cluster)


def marker_key(namespace: str, name: str) -> ObjectKey:
    """Key of the works by which providers are asked for the endpoints of a Service."""
    return ObjectKey(NETWORKING_GROUP, MULTI_CLUSTER_SERVICES, namespace, name)


def is_marker(key: ObjectKey) -> bool:
    """Whether a work asks for endpoints and is never applied."""
    return key.resource == MULTI_CLUSTER_SERVICES and key.group == NETWORKING_GROUP


def read_shared_service(event: PolicyChanged) -> SharedService | None:
    """The MultiClusterService of a fact; None for one that is being deleted, or that cannot be read."""
    if event.deleting:
        return None
    return shared_service(event.key, event.uid, event.manifest, event.provenance.decided_at)


def shared_service(key: PolicyKey, uid: str, manifest: Raw | Manifest, since: float = 0.0) -> SharedService | None:
    """A MultiClusterService by its manifest; None for one that cannot be read, or that names no type."""
    try:
        found = _object.decode(manifest) if isinstance(manifest, Raw) else msgspec.convert(manifest, _Object)
    except msgspec.DecodeError:
        return None
    spec, labels = found.spec, found.metadata.labels or {}
    if not spec.types:
        return None
    several = spec.range.cluster_names or ()
    return SharedService(
        key.namespace,
        key.name,
        uid,
        labels.get(MULTI_CLUSTER_SERVICE_ID_LABEL, ""),
        spec.types[0],
        _names(spec.provider_clusters) or spec.service_provision_clusters or several,
        _names(spec.consumer_clusters) or spec.service_consumption_clusters or (),
        since,
    )


def _names(clusters: Iterable[_Named] | None) -> tuple[str, ...]:
    return tuple(cluster.name for cluster in clusters or () if cluster.name)


def partner_of(event: ClusterChanged) -> Partner:
    """What a cluster can take part in: one that was never heard of is not ready."""
    status = _cluster.decode(event.manifest).status or _Status()
    conditions = {item.type: item.status for item in status.conditions or ()}
    complete = conditions.get("CompleteAPIEnablements") == "True"
    served = any(
        group.group_version == DISCOVERY_API and any(item.kind == "EndpointSlice" for item in group.resources or ())
        for group in status.api_enablements or ()
    )
    return Partner(conditions.get("Ready") == "True", lacks_slices=complete and not served)


def hindrance(cluster: str, partners: Mapping[str, Partner]) -> tuple[str, str] | None:
    """Why a cluster cannot take part now: reason and message of an Event; None where it can."""
    partner = partners.get(cluster)
    if partner is None:
        return NOT_FOUND, f"cluster {cluster} is no member: join it, or take its name out"
    if not partner.ready:
        return NOT_READY, f"cluster {cluster} is not ready: what it has stays as it is until it is ready again"
    if partner.lacks_slices:
        return INCOMPATIBLE, f"cluster {cluster} does not serve EndpointSlice of {DISCOVERY_API}"
    return None

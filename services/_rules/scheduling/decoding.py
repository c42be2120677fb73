"""Decodes Cluster manifests and binding specs into the views of the algorithm; the only reader of their JSON."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from schemas.manifest import Manifest
from services._rules.capacity import general_estimate as estimation
from services._rules.kubernetes.taints import REPELLING, Taint
from services._rules.scheduling.compiled_placement import compile_placement
from services._rules.scheduling.division.weights import TargetCluster
from services._rules.scheduling.scheduling_views import MAX_REPLICAS, BindingView, ClusterView


class _Api(Struct):
    kind: str = ""


class _ApiGroup(Struct, rename="camel"):
    group_version: str = ""
    resources: list[_Api] | None = None


class _ClusterMeta(Struct, rename="camel"):
    name: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _ClusterSpec(Struct):
    provider: str | None = None
    region: str | None = None
    zones: tuple[str, ...] | None = None
    taints: tuple[Taint, ...] | None = None


class _ClusterStatus(Struct, rename="camel"):
    api_enablements: list[_ApiGroup] | None = None


class _Cluster(Struct):
    metadata: _ClusterMeta
    spec: _ClusterSpec | None = None
    status: _ClusterStatus | None = None


class _Reference(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


_Count: TypeAlias = Annotated[int, Meta(ge=-MAX_REPLICAS - 1, le=MAX_REPLICAS)]


class _Target(Struct):
    name: str
    replicas: _Count | None = None


class _Eviction(Struct, rename="camel"):
    from_cluster: str = ""


class _Requirements(Struct, rename="camel"):
    resource_request: dict[str, str | int | float | None] | None = None


class _Spec(Struct, rename="camel"):
    resource: _Reference = msgspec.field(default_factory=_Reference)
    replicas: _Count | None = None
    replica_requirements: _Requirements | None = None
    components: list[dict[str, Any]] | None = None
    placement: dict[str, Any] | None = None
    clusters: list[_Target] | None = None
    graceful_eviction_tasks: list[_Eviction] | None = None
    reschedule_triggered_at: datetime | None = None


def cluster_view(manifest: Manifest) -> ClusterView:
    """View of a Cluster manifest; raises msgspec.ValidationError naming the field."""
    cluster = msgspec.convert(manifest, _Cluster)
    spec, status = cluster.spec or _ClusterSpec(), cluster.status or _ClusterStatus()
    return ClusterView(
        name=cluster.metadata.name,
        labels=cluster.metadata.labels or {},
        provider=spec.provider or "",
        region=spec.region or "",
        zones=spec.zones or (),
        taints=tuple(taint for taint in spec.taints or () if taint.effect in REPELLING),
        apis=frozenset(
            (group.group_version, item.kind) for group in status.api_enablements or () for item in group.resources or ()
        ),
        deleting=cluster.metadata.deletion_timestamp is not None,
        capacity=estimation.capacity_of(manifest),
    )


def binding_view(spec: Manifest) -> BindingView:
    """View of a ResourceBinding spec.

    Raises msgspec.ValidationError naming the field, or quantity.QuantityError.
    """
    read = msgspec.convert(spec, _Spec)
    demand = None
    if read.replica_requirements is not None:
        demand = estimation.demand_of(read.replica_requirements.resource_request)
    return BindingView(
        api=(read.resource.api_version, read.resource.kind),
        uid=read.resource.uid,
        replicas=read.replicas or 0,
        demand=demand,
        components=tuple(estimation.component_of(item) for item in read.components or ()),
        placement=compile_placement(read.placement),
        clusters=tuple(TargetCluster(item.name, item.replicas or 0) for item in read.clusters or ()),
        evicting=frozenset(item.from_cluster for item in read.graceful_eviction_tasks or ()),
        reschedule_triggered_at=read.reschedule_triggered_at,
        namespace=read.resource.namespace,
        name=read.resource.name,
    )

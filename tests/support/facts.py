"""Short ways to write facts: given these events, when a key is decided, then those events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known
from schemas.endpoints import PortOfSlice, SliceEndpoint
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.endpoints import EndpointsCollected
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest

NOW = 1_793_232_000.0
KEY = ObjectKey("apps", "deployments", "default", "nginx")
POLICY = PolicyRef(PolicyKey("PropagationPolicy", "default", "nginx-propagation"), "policy-id", 1)
STATIC = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {
            "staticWeightList": [
                {"targetCluster": {"clusterNames": ["m1"]}, "weight": 1},
                {"targetCluster": {"clusterNames": ["m2"]}, "weight": 1},
            ]
        },
    },
}
ANYWHERE: Manifest = {"clusterAffinity": {}}
BOTH = {"clusterNames": ["m1", "m2"]}
DIVIDED: Manifest = {
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
}
AGGREGATED: Manifest = {"clusterAffinity": BOTH, **DIVIDED}
DYNAMIC: Manifest = {
    "clusterAffinity": BOTH,
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
}
ONE_CLUSTER: Manifest = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
UNSCHEDULABLE = [{"key": "k", "effect": "NoSchedule"}]
"""Taints of a cluster that takes nothing new."""


def raw(content: Any) -> Raw:
    """JSON as facts carry it."""
    return Raw(msgspec.json.encode(content))


def edited(fact: Any, field: str = "manifest", /, **parts: Any) -> Any:
    """The fact with other top-level parts of its manifest, or of the field that is named."""
    return replace(fact, **{field: raw({**msgspec.json.decode(getattr(fact, field)), **parts})})


def key(name: str = "nginx", namespace: str = "default") -> ObjectKey:
    """The key of a Deployment."""
    return replace(KEY, name=name, namespace=namespace)


def only(*names: str) -> Manifest:
    """The placement that names these clusters."""
    return {"clusterAffinity": {"clusterNames": list(names)}}


def cpus(count: int | str = 1) -> Manifest:
    """The part of a binding's spec that asks for CPUs for each replica."""
    return {"replicaRequirements": {"resourceRequest": {"cpu": str(count)}}}


def deployment(replicas: int = 2, image: str = "nginx:1.7.9", **metadata: Any) -> dict[str, Any]:
    """The Deployment of the examples."""
    labels = {"app": "nginx"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "nginx",
            "namespace": "default",
            "uid": "u1",
            "generation": 1,
            "labels": labels,
            **metadata,
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": image}]},
            },
        },
    }


def template(manifest: dict[str, Any] | None = None, uid: str = "u1") -> TemplateChanged:
    """The fact about a template."""
    manifest = manifest or deployment()
    return TemplateChanged(
        key=KEY,
        uid=uid,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        digest=str(hash(msgspec.json.encode(manifest))),
        generation=manifest["metadata"].get("generation", 0),
        manifest=Raw(msgspec.json.encode(manifest)),
    )


def binding(
    replicas: int = 2,
    placement: Manifest | None = None,
    uid: str = "u1",
    *,
    name: str = "nginx",
    namespace: str = "default",
    **spec: Any,
) -> BindingRequested:
    """The request to place it."""
    content = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name, "uid": uid},
        "replicas": replicas,
        "placement": STATIC if placement is None else placement,
        "schedulerName": "default-scheduler",
        "conflictResolution": "Abort",
        **spec,
    }
    return BindingRequested(
        key=key(name, namespace),
        uid=uid,
        api_version="apps/v1",
        kind="Deployment",
        spec=Raw(msgspec.json.encode(content)),
        policy=POLICY,
        replicas=replicas,
        workload=replicas > 0,
    )


def asked(name: str, replicas: int, placement: Manifest | None = None, cpu: int | str = 1) -> BindingRequested:
    """The request to place a workload by the capacity of clusters."""
    return binding(replicas, placement or AGGREGATED, name=name, **cpus(cpu))


def placement(as_of: int = 0, uid: str = "u1", **counts: int) -> PlacementDecided:
    """A decision: placement(m1=1, m2=1)."""
    return PlacementDecided(
        key=KEY,
        uid=uid,
        clusters=tuple(TargetCluster(name, replicas) for name, replicas in sorted(counts.items())),
        placement=Raw(msgspec.json.encode(STATIC)),
        replicas=sum(counts.values()),
        scheduled_at=1.0,
        provenance=Provenance(as_of=as_of),
    )


def cluster(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    deleting: bool = False,
    actions: Sequence[str] = (),
    **spec: Any,
) -> ClusterChanged:
    """The fact about a ready member that serves Deployments and ConfigMaps; `actions` are those of its Remedies."""
    served = [
        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
        {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
    ]
    manifest = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"syncMode": "Push", **spec},
        "status": {
            "apiEnablements": served,
            "conditions": [{"type": "Ready", "status": "True"}],
            **({"remedyActions": list(actions)} if actions else {}),
        },
    }
    return ClusterChanged(name=name, uid=f"uid-{name}", manifest=Raw(msgspec.json.encode(manifest)), deleting=deleting)


def member(
    name: str,
    cpu: float | None = None,
    *,
    pods: int = 1000,
    used: Manifest | None = None,
    serves: bool = True,
    **more: Any,
) -> ClusterChanged:
    """The fact about a member whose summary says what can be allocated in it, and what is."""
    fact = cluster(name, **more)
    status = msgspec.json.decode(fact.manifest)["status"]
    allocatable = {"pods": str(pods)} if cpu is None else {"cpu": str(cpu), "pods": str(pods)}
    status["resourceSummary"] = {"allocatable": allocatable, "allocated": used or {}}
    if not serves:
        status["apiEnablements"] = []
    return edited(fact, status=status)  # type: ignore[no-any-return]


def removed(name: str) -> ClusterRemoved:
    """The fact that a cluster left."""
    return ClusterRemoved(name=name, uid=f"uid-{name}")


def released(name: str = "nginx", uid: str = "u1") -> BindingReleased:
    """The end of a binding."""
    return BindingReleased(key=key(name), uid=uid)


def task(name: str, mode: str = "Gracefully", **fields: Any) -> EvictionTask:
    """The task to leave a cluster because of a taint."""
    return EvictionTask(
        from_cluster=name, reason="TaintUntolerated", producer="TaintManager", purge_mode=mode, **fields
    )


def evicted(cluster: str, mode: str = "Gracefully", *, name: str = "nginx", **fields: Any) -> EvictionRequested:
    """The decision that an object has to leave a cluster."""
    return EvictionRequested(key=key(name), uid="u1", tasks=(task(cluster, mode, **fields),))


def work(cluster: str, **fields: Any) -> WorkRendered:
    """What a cluster has to hold of the example, or of the object that is named."""
    named = {"key": KEY, "uid": "u1", "api_version": "apps/v1", "kind": "Deployment", "digest": "d"}
    return WorkRendered(cluster=cluster, **{**named, **fields})


def withdrawn(cluster: str, **fields: Any) -> WorkWithdrawn:
    """The decision that a cluster no longer has to hold it."""
    named = {"key": KEY, "uid": "u1", "api_version": "apps/v1", "kind": "Deployment"}
    return WorkWithdrawn(cluster=cluster, **{**named, **fields})


def seen(cluster: str, replicas: int = 1, **fields: Any) -> WorkObserved:
    """A report of a healthy copy."""
    found = {"key": KEY, "uid": "u1", "digest": "d", "applied": True, "health": "Healthy"}
    return WorkObserved(cluster=cluster, **{**found, "status": raw({"replicas": replicas}), **fields})


def rollup(
    *, name: str = "nginx", uid: str = "u1", health: str = "Healthy", at: float = 0.0, **statuses: Manifest
) -> StatusRolledUp:
    """The sum of the statuses that clusters report."""
    items = tuple(
        ClusterStatusItem(cluster=cluster, applied=True, health=health, status=raw(status))
        for cluster, status in sorted(statuses.items())
    )
    return StatusRolledUp(key=key(name), uid=uid, items=items, provenance=Provenance(decided_at=at))


def ready_in(uid: str = "u1", **replicas: int) -> StatusRolledUp:
    """The sum of statuses with so many ready replicas in each cluster."""
    return rollup(uid=uid, **{cluster: {"readyReplicas": count} for cluster, count in replicas.items()})


def estimated(as_of: int, *, name: str = "nginx", **replicas: int) -> CapacityEstimated:
    """An answer of the estimator."""
    return CapacityEstimated(
        key=key(name),
        uid="u1",
        requirements_digest="x",
        estimates=tuple(ClusterEstimate(cluster, count) for cluster, count in replicas.items()),
        provenance=Provenance(as_of=as_of),
    )


def override(*rules: Manifest, kind: str = "OverridePolicy", name: str = "op", **spec: Any) -> PolicyChanged:
    """An OverridePolicy with these rules, for all objects unless selectors are given."""
    namespaced = {"namespace": "default"} if kind == "OverridePolicy" else {}
    content = {"kind": kind, "metadata": {"name": name, **namespaced}, "spec": {"overrideRules": list(rules), **spec}}
    policy = PolicyKey(kind, namespaced.get("namespace", ""), name)
    return PolicyChanged(key=policy, uid="o", manifest=raw(content))


def quota(
    name: str = "all", assigned: Mapping[str, Manifest] | None = None, *, uid: str = "q1", **overall: Any
) -> PolicyChanged:
    """A FederatedResourceQuota of the default namespace: limits, and what clusters are assigned."""
    assignments = [{"clusterName": cluster, "hard": hard} for cluster, hard in (assigned or {}).items()]
    spec: Manifest = {"overall": overall}
    if assignments:
        spec["staticAssignments"] = assignments
    manifest = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": spec,
    }
    policy = PolicyKey("FederatedResourceQuota", "default", name)
    return PolicyChanged(key=policy, uid=uid, manifest=raw(manifest))


def quota_gone(name: str = "all", uid: str = "q1") -> PolicyDeleted:
    """The end of a FederatedResourceQuota."""
    return PolicyDeleted(key=PolicyKey("FederatedResourceQuota", "default", name), uid=uid)


def node(name: str, cpu: str = "4", **spec: Any) -> Manifest:
    """A node with these CPUs."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": cpu, "pods": "100"}}}


def targets(event: Known | None) -> dict[str, int | None]:
    """Clusters of a placement with their replicas."""
    assert isinstance(event, PlacementDecided), event
    return {target.name: target.replicas for target in event.clusters}


def shared(
    providers: tuple[str, ...] = (), consumers: tuple[str, ...] = (), *, uid: str = "s1", **parts: Any
) -> PolicyChanged:
    """The MultiClusterService `web` of the default namespace, between these clusters."""
    spec = {
        "types": [parts.pop("type", "CrossCluster")],
        "providerClusters": [{"name": name} for name in providers],
        "consumerClusters": [{"name": name} for name in consumers],
    }
    labels = {"multiclusterservice.karmada.io/permanent-id": "id-1"}
    manifest = {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": spec,
    }
    return PolicyChanged(key=SHARED, uid=uid, manifest=raw(manifest), **parts)


SHARED = PolicyKey("MultiClusterService", "default", "web")


def standing(name: str, ready: str = "True", *, slices: bool = True) -> ClusterChanged:
    """The fact about a member as a partner: whether it is ready, and serves EndpointSlices."""
    served = [
        {"groupVersion": "discovery.k8s.io/v1", "resources": [{"name": "endpointslices", "kind": "EndpointSlice"}]}
    ]
    conditions = [{"type": "Ready", "status": ready}, {"type": "CompleteAPIEnablements", "status": "True"}]
    return edited(cluster(name), status={"apiEnablements": served if slices else [], "conditions": conditions})


def offered(provider: str, *addresses: str, name: str = "web-a", service: str = "web") -> EndpointsCollected:
    """The fact about one slice of a provider."""
    return EndpointsCollected(
        cluster=provider,
        namespace="default",
        name=name,
        service=service,
        address_type="IPv4",
        endpoints=tuple(SliceEndpoint((address,)) for address in addresses),
        ports=(PortOfSlice("http", port=8080),),
    )

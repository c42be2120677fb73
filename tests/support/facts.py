"""Short ways to write facts: given these events, when a key is decided, then those events."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested, PolicyRef
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey

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
    replicas: int = 2, placement: dict[str, Any] | None = None, uid: str = "u1", **spec: Any
) -> BindingRequested:
    """The request to place it."""
    content = {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "default",
            "name": "nginx",
            "uid": uid,
        },
        "replicas": replicas,
        "placement": STATIC if placement is None else placement,
        "schedulerName": "default-scheduler",
        "conflictResolution": "Abort",
        **spec,
    }
    return BindingRequested(
        key=KEY,
        uid=uid,
        api_version="apps/v1",
        kind="Deployment",
        spec=Raw(msgspec.json.encode(content)),
        policy=POLICY,
        replicas=replicas,
        workload=replicas > 0,
    )


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


def cluster(name: str, *, labels: dict[str, str] | None = None, deleting: bool = False, **spec: Any) -> ClusterChanged:
    """The fact about a ready member that serves Deployments and ConfigMaps."""
    served = [
        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
        {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
    ]
    manifest = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"syncMode": "Push", **spec},
        "status": {"apiEnablements": served, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return ClusterChanged(name=name, uid=f"uid-{name}", manifest=Raw(msgspec.json.encode(manifest)), deleting=deleting)


class Log:
    """Positions for facts, as the log would give them."""

    def __init__(self) -> None:
        self._positions = count(1)

    def place(self, event: Known) -> tuple[int, str, Known]:
        """Position, subject and event of the next fact."""
        return next(self._positions), subject_of(event), event

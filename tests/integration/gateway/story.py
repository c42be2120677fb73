"""Facts of one Deployment on two clusters, for tests."""

from __future__ import annotations

import hashlib

import msgspec

from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested, PolicyRef
from schemas.events.cluster import ClusterChanged
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey

NGINX = ObjectKey(group="apps", resource="deployments", namespace="default", name="nginx")
CREATED = 1_700_000_000.0


def raw(value):
    return msgspec.Raw(msgspec.json.encode(value))


def cluster(name):
    return ClusterChanged(name=name, uid=f"uid-{name}", manifest=raw({"metadata": {"name": name}}))


def requested(key=NGINX, uid="u1", kind="Deployment", api_version="apps/v1", generation=1, replicas=2, **more):
    spec = {
        "resource": {
            "apiVersion": api_version,
            "kind": kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
        },
        "replicas": replicas,
        "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}},
        "schedulerName": "default-scheduler",
        "conflictResolution": "Abort",
    }
    fields = {
        "policy": PolicyRef(PolicyKey("PropagationPolicy", "default", "web"), "policy-id", 1),
        "created_at": CREATED,
        **more,
    }
    return BindingRequested(
        key=key,
        uid=uid,
        api_version=api_version,
        kind=kind,
        spec=raw(spec),
        generation=generation,
        replicas=replicas,
        workload=True,
        **fields,
    )


def released(key=NGINX, uid="u1"):
    return BindingReleased(key=key, uid=uid, reason="template deleted")


def placed(key=NGINX, uid="u1", generation=1, cause=0, **targets):
    return PlacementDecided(
        key=key,
        uid=uid,
        clusters=tuple(TargetCluster(name, count) for name, count in sorted(targets.items())),
        binding_generation=generation,
        placement=raw({"clusterAffinity": {}}),
        scheduled_at=CREATED + 1,
        provenance=Provenance(as_of=cause, causes=(cause,) if cause else ()),
    )


def manifest(key=NGINX, kind="Deployment", api_version="apps/v1", **more):
    metadata = {"name": key.name, "namespace": key.namespace}
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind, "metadata": metadata, **more})


def rendered(name, key=NGINX, uid="u1", kind="Deployment", api_version="apps/v1", data=None, inline=True, **more):
    data = data or manifest(key, kind, api_version)
    return WorkRendered(
        cluster=name,
        key=key,
        uid=uid,
        api_version=api_version,
        kind=kind,
        digest=hashlib.sha256(data).hexdigest(),
        manifest=msgspec.Raw(data) if inline else msgspec.UNSET,
        binding_generation=1,
        **more,
    )


def withdrawn(name, key=NGINX, uid="u1"):
    return WorkWithdrawn(cluster=name, key=key, uid=uid, api_version="apps/v1", kind="Deployment")


def observed(name, key=NGINX, uid="u1", **more):
    fields = {"applied": True, "health": "Healthy", "status": raw({"readyReplicas": 1}), "at": CREATED + 2, **more}
    return WorkObserved(cluster=name, key=key, uid=uid, **fields)


def rolled_up(*names, key=NGINX, uid="u1", cause=0):
    items = tuple(
        ClusterStatusItem(cluster=name, applied=True, health="Healthy", status=raw({"readyReplicas": 1}))
        for name in names
    )
    return StatusRolledUp(
        key=key, uid=uid, items=items, fully_applied=True, provenance=Provenance(observed=(cause,) if cause else ())
    )

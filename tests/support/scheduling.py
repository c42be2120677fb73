"""Members, strategies and constraints for tests of the scheduling algorithm."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import cluster_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.scheduling_views import Decision

DUPLICATED = {"replicaSchedulingType": "Duplicated"}
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
WEIGHTED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
DYNAMIC = {**WEIGHTED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
DEPLOYMENTS_SERVED = [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]


def static(**weights: int) -> Manifest:
    """Static weights by cluster name."""
    rules = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
    return {**WEIGHTED, "weightPreference": {"staticWeightList": rules}}


def spread(**limits: tuple[int, int]) -> list[Manifest]:
    """Spread constraints by field: least and most groups."""
    return [{"spreadByField": field, "minGroups": least, "maxGroups": most} for field, (least, most) in limits.items()]


def member(
    name: str,
    pods: Any = 9,
    region: str = "",
    *,
    apis: list[Manifest] = DEPLOYMENTS_SERVED,
    metadata: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """A cluster that serves Deployments and has capacity for so many pods."""
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"region": region, **spec},
        "status": {"apiEnablements": apis, "resourceSummary": {"allocatable": {"pods": pods}}},
    }


def index_of(*members: Manifest) -> ClusterIndex:
    """The index of these clusters."""
    return ClusterIndex(cluster_view(item) for item in members)


def replicas_of(decision: Decision) -> dict[str, int]:
    """Replicas by cluster of a successful decision."""
    assert decision.error is None, decision.message
    return {item.name: item.replicas for item in decision.clusters}

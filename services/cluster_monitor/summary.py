"""Sums up one member from version, APIs, nodes and pods into the status of its Cluster object (reference 03 §6.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services._kit.kube import ApiResource
from services._rules.estimation_summary import allocatable_modelings, node_summary, resource_summary
from services._rules.quantity import Quantity

Manifest = dict[str, Any]


def api_enablements(resources: Iterable[ApiResource]) -> list[Manifest]:
    """Group versions and their kinds, both sorted."""
    groups: dict[str, dict[str, str]] = {}
    for resource in resources:
        groups.setdefault(resource.api_version, {})[resource.name] = resource.kind
    return [
        {
            "groupVersion": version,
            "resources": [{"name": name, "kind": kind} for name, kind in sorted(served.items())],
        }
        for version, served in sorted(groups.items())
    ]


def summarise(
    version: str,
    resources: Iterable[ApiResource],
    nodes: list[Manifest],
    pods: list[Manifest],
    models: list[Manifest],
) -> Manifest:
    """The collected part of a Cluster status; raises quantity.QuantityError."""
    counted = node_summary(nodes)
    sums = resource_summary(nodes, pods)
    summary: Manifest = {
        "allocatable": _written(sums.allocatable),
        "allocated": _written(sums.allocated),
        "allocating": _written(sums.allocating),
    }
    modelings = allocatable_modelings(models, nodes, pods) if models else None
    if modelings:
        summary["allocatableModelings"] = [{"grade": grade, "count": count} for grade, count in modelings]
    return {
        "kubernetesVersion": version,
        "apiEnablements": api_enablements(resources),
        "nodeSummary": {"totalNum": counted.total, "readyNum": counted.ready},
        "resourceSummary": {name: amounts for name, amounts in summary.items() if amounts},
    }


def _written(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}

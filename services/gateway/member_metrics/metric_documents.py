"""Writes what discovery shows of the metrics that members serve: groups, versions, and the metrics by name."""

from __future__ import annotations

from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.metrics.metric_lists import ServedMetric, resource_entries
from services._rules.metrics.metric_questions import CUSTOM, EXTERNAL, RESOURCE, VERSIONS
from services.apiserver.kinds.kind_model import Kind, Resource
from services.apiserver.kinds.registry import Registry
from services.gateway.member_metrics.served_metrics import ServedMetrics

COUNTED: Final = (CUSTOM, EXTERNAL)
"""Groups whose resources are what members serve at the moment."""
_USAGE: Final = {"type": "object", "additionalProperties": {"type": "string"}, "description": "Amounts by resource."}
_MEASURED: Final[dict[str, Any]] = {
    "timestamp": {"type": "string", "format": "date-time", "description": "When it was measured."},
    "window": {"type": "string", "description": "Over how much time before that."},
}
_CONTAINER: Final = {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}}
_CONTAINERS: Final = {"type": "array", "items": _CONTAINER, "description": "What each container uses."}


def usage_kinds() -> list[Kind]:
    """NodeMetrics and PodMetrics."""
    return [
        _kind("NodeMetrics", "nodes", "What a node of a member uses.", {"usage": _USAGE}, namespaced=False),
        _kind("PodMetrics", "pods", "What a pod of a member uses.", {"containers": _CONTAINERS}, namespaced=True),
    ]


def _kind(kind: str, plural: str, description: str, fields: dict[str, Any], *, namespaced: bool) -> Kind:
    resource = Resource(
        group=RESOURCE,
        version=VERSIONS[RESOURCE][0],
        kind=kind,
        plural=plural,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        verbs=("get", "list"),
    )
    return Kind(resource, schema={"type": "object", "description": description, "properties": {**_MEASURED, **fields}})


class GatewayGroups:
    """Discovery of the kinds in a registry, and of custom and external metrics.

    Without `served` no member can be asked.
    """

    def __init__(self, registry: Registry, served: ServedMetrics | None) -> None:
        self._registry = registry
        self._served = served

    def group_list(self) -> Manifest:
        """The APIGroupList."""
        own = self._registry.api_group_list()
        return {**own, "groups": [*own["groups"], *(_group(name) for name in COUNTED)]}

    def group(self, name: str) -> Manifest | None:
        """The APIGroup of a name; None for one that is not served."""
        if name in COUNTED:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}
        return self._registry.api_group(name)

    async def resource_list(self, group: str, version: str) -> Manifest | None:
        """The APIResourceList of a group version; None for one that is not served."""
        if group not in COUNTED:
            return self._registry.api_resource_list(group, version)
        if version not in VERSIONS[group]:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}",
            "resources": resource_entries(group, await self._metrics(group)),
        }

    async def aggregated(self, version: str) -> Manifest:
        """The APIGroupDiscoveryList in a version of apidiscovery.k8s.io."""
        own = self._registry.aggregated(core=False, version=version)
        found = []
        for group in COUNTED:
            metrics = await self._metrics(group)
            versions = [
                {"version": each, "resources": _discovered(group, each, metrics), "freshness": "Current"}
                for each in VERSIONS[group]
            ]
            found.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": versions})
        return {**own, "items": [*own["items"], *found]}

    async def _metrics(self, group: str) -> list[ServedMetric]:
        return await self._served.union(group) if self._served is not None else []


def _group(name: str) -> Manifest:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in VERSIONS[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _discovered(group: str, version: str, metrics: list[ServedMetric]) -> list[Manifest]:
    """Metrics in the form of aggregated discovery: those of objects below the plural that they are of."""
    found: dict[str, Manifest] = {}
    for entry, metric in zip(resource_entries(group, metrics), metrics, strict=True):
        plural, _, name = metric.name.partition("/")
        kind = {"group": group, "version": version, "kind": entry["kind"]}
        of = found.setdefault(
            plural,
            {
                "resource": plural,
                "responseKind": kind,
                "scope": "Namespaced" if metric.namespaced else "Cluster",
                "singularResource": "",
                "verbs": [] if name else ["get"],
            },
        )
        if name:
            shown = {"subresource": name, "responseKind": kind, "verbs": ["get"]}
            of.setdefault("subresources", []).append(shown)
    return list(found.values())

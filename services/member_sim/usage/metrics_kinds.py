"""NodeMetrics and PodMetrics of metrics.k8s.io/v1beta1: made of the load model when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.kinds.kind_model import Kind, Resource
from services.apiserver.kinds.registry import Registry
from services.member_sim.usage.cluster_usage import ClusterUsage
from services.member_sim.usage.load_model import WINDOW_SECONDS
from services.member_sim.world.world_model import stamp

GROUP: Final = "metrics.k8s.io"
READERS: Final[Manifest] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {
        "name": "system:aggregated-metrics-reader",
        "labels": {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true" for name in ("view", "edit", "admin")},
    },
    "rules": [{"apiGroups": [GROUP], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}],
}
"""The role by which those who may view a namespace may read what it uses."""
_PRIORITY: Final = 100
_USAGE: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_TIMES: Final[dict[str, Any]] = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}
_CONTAINERS: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}},
}


def _resource(kind: str, plural: str, *, namespaced: bool) -> Resource:
    return Resource(
        group=GROUP,
        version="v1beta1",
        kind=kind,
        plural=plural,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        verbs=("get", "list"),
    )


def _times(now: float) -> dict[str, str]:
    return {"timestamp": stamp(now // WINDOW_SECONDS * WINDOW_SECONDS), "window": f"{WINDOW_SECONDS}s"}


def _metadata(obj: Manifest, now: float) -> Manifest:
    meta = obj["metadata"]
    found = {name: meta[name] for name in ("name", "namespace", "labels") if meta.get(name)}
    return {**found, "creationTimestamp": stamp(now)}


class NodeMetrics(Kind):
    """What nodes use."""

    virtual = True

    def __init__(self, usage: ClusterUsage, now: Callable[[], float]) -> None:
        properties = {"usage": _USAGE, **_TIMES}
        super().__init__(
            _resource("NodeMetrics", "nodes", namespaced=False), schema={"type": "object", "properties": properties}
        )
        self._usage, self._now = usage, now

    def computed(self, namespace: str, name: str) -> list[Manifest] | None:
        """Return the nodes whose kubelets answer."""
        now = self._now()
        usage = self._usage.at(now)
        found = ((node, usage.node(node["metadata"]["name"])) for node in self._usage.nodes(name))
        head = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return [
            {**head, "metadata": _metadata(node, now), **_times(now), "usage": used.quantities()}
            for node, used in found
            if used is not None
        ]


class PodMetrics(Kind):
    """What pods use, by container."""

    virtual = True

    def __init__(self, usage: ClusterUsage, now: Callable[[], float]) -> None:
        properties = {"containers": _CONTAINERS, **_TIMES}
        super().__init__(
            _resource("PodMetrics", "pods", namespaced=True), schema={"type": "object", "properties": properties}
        )
        self._usage, self._now = usage, now

    def computed(self, namespace: str, name: str) -> list[Manifest] | None:
        """Return the pods that run."""
        now = self._now()
        usage = self._usage.at(now)
        head = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return [
            {
                **head,
                "metadata": _metadata(pod, now),
                **_times(now),
                "containers": [{"name": each, "usage": used.quantities()} for each, used in containers.items()],
            }
            for pod in self._usage.pods(namespace, name)
            if (containers := usage.pod(pod))
        ]


def add_metrics(registry: Registry, usage: ClusterUsage, now: Callable[[], float]) -> None:
    """Serve metrics.k8s.io."""
    for kind in (NodeMetrics(usage, now), PodMetrics(usage, now)):
        registry.add_kind(kind, group_priority=_PRIORITY, version_priority=_PRIORITY)

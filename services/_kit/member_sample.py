"""Looks at one member: is it ready, what does it serve, what room does it have (reference 03 §6.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from schemas.agent import Sample
from services._kit.kube import ApiError, ApiResource, KubeClient, Unreachable, decode, resource_path
from services._kit.pod_reading import pods_of
from services._rules.estimation_summary import allocatable_modelings, node_summary, resource_summary
from services._rules.quantity import Quantity, QuantityError

log = structlog.get_logger("member_sample")

Manifest = dict[str, Any]
_PAGE: Final = "1000"
SETTLED_SECONDS: Final = 3.0
"""How long after a change of its definitions a member is asked at every look what it serves."""


class _Version(Struct, rename="camel"):
    git_version: str = ""


class Served:
    """What a member served when it was last asked for all of it, which takes a request for every group and version.

    Times are those of the event loop.
    """

    def __init__(self) -> None:
        self._resources: list[ApiResource] | None = None
        self._asked_at = self._unsettled_until = 0.0

    def forget(self) -> None:
        """Ask again at the next look."""
        self._resources = None

    def definitions_changed(self, now: float) -> None:
        """Ask at the next look, and at every one for a while: what was just defined may be served a moment later."""
        self.forget()
        self._unsettled_until = now + SETTLED_SECONDS

    def grow_old(self, now: float, interval: float) -> None:
        """Before a look: ask again where the last answer is older than an interval, or definitions have changed."""
        if now - self._asked_at >= interval or now < self._unsettled_until:
            self.forget()
            self._asked_at = now

    async def of(self, client: KubeClient) -> list[ApiResource]:
        """Kinds that the member serves."""
        if self._resources is None:
            self._resources = await client.discover(preferred=False)
        return self._resources


async def look(
    client: KubeClient, cluster: str, models: list[Manifest], now: float, served: Served | None = None
) -> Sample:
    """One look at a member through an open client; what does not answer is part of the answer.

    With `served` what it holds counts, until it forgets.
    """
    try:
        healthy = await _health(client)
    except ApiError:
        return Sample(at=now, online=False)
    except Unreachable as error:
        log.info("probe_failed", cluster=cluster, error=str(error))
        return Sample(at=now, online=False)
    try:
        summary = await _collect(client, models, served or Served())
    except (ApiError, Unreachable, QuantityError, msgspec.MsgspecError) as error:
        log.warning("summary_failed", cluster=cluster, error=str(error))
        return Sample(at=now, online=True, healthy=healthy, summary=None)
    return Sample(at=now, online=True, healthy=healthy, summary=summary)


async def _health(client: KubeClient) -> bool:
    try:
        await client.request("GET", "/readyz", accept="*/*", timeout=10.0)
    except ApiError as error:
        if error.status != 404:
            raise
        await client.request("GET", "/healthz", accept="*/*", timeout=10.0)
    return True


async def _collect(client: KubeClient, models: list[Manifest], served: Served) -> Manifest:
    version = msgspec.json.decode(await client.request("GET", "/version"), type=_Version)
    resources = await served.of(client)
    nodes = await _all(client, "nodes", _objects_of)
    pods = await _all(client, "pods", pods_of)
    return summarise(version.git_version, resources, nodes, pods, models)


def _objects_of(page: bytes) -> tuple[list[Manifest], str]:
    """The objects of a list, and where it goes on."""
    found = decode(page)
    return found.get("items") or [], (found.get("metadata") or {}).get("continue") or ""


async def _all(
    client: KubeClient, resource: str, read: Callable[[bytes], tuple[list[Manifest], str]]
) -> list[Manifest]:
    items: list[Manifest] = []
    params = {"limit": _PAGE}
    while True:
        found, following = read(await client.request("GET", resource_path("", "v1", resource), params=params))
        items += found
        if not following:
            return items
        params = {"limit": _PAGE, "continue": following}


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

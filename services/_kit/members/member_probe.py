"""Probes one member: readiness, served kinds and capacity (docs/sources.md#resource-summary)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import structlog
from msgspec import Raw, Struct

from schemas.agent import Sample
from schemas.manifest import Manifest
from services._kit.identity.identity_reading import read_identity
from services._kit.kube.answers.listing import each_item
from services._kit.kube.answers.shapes import readable
from services._kit.kube.client import ApiError, ApiResource, BadAnswer, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import Reading
from services._kit.members.pod_fields import CompactObject, Manifests, Nodes, PodsOnNodes
from services._rules.capacity.resource_summary import PodSums, allocatable_modelings, node_summary
from services._rules.kubernetes.quantity import Quantity, QuantityError

log = structlog.get_logger("member_sample")

SETTLED_SECONDS: Final = 3.0
"""How long after a change of its definitions a member is asked at every look what it serves."""
_CAUSE_LENGTH: Final = 500
"""Characters of the reason why a member does not answer."""


class _Version(Struct, rename="camel"):
    git_version: str = ""


_version: Final = msgspec.json.Decoder(_Version)


class DiscoveryCache:
    """What a member served when it was last asked for all of it, which may take a request for every version it serves.

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


async def probe_cluster(
    client: KubeClient, cluster: str, models: list[Manifest] | None, now: float, served: DiscoveryCache | None = None
) -> Sample:
    """Probe a member through an open client; a failed request is part of the sample.

    With `served` what it holds counts, until it forgets. Without `models` (None: not known yet) there is no summary.
    """
    try:
        healthy = await _health(client)
    except ApiError as error:
        if error.status == 401:
            return Sample(at=now, online=False, error=f"the member refuses the credentials: {error}")
        return Sample(at=now, online=False, cause=str(error)[:_CAUSE_LENGTH])
    except Unreachable as error:
        log.info("probe_failed", cluster=cluster, error=str(error))
        return Sample(at=now, online=False, cause=str(error)[:_CAUSE_LENGTH])
    try:
        identity = (await read_identity(client)).uid
    except Unreachable:
        identity = ""
    if models is None:
        return Sample(at=now, online=True, healthy=healthy, identity=identity)
    try:
        summary = await _collect(client, models, served or DiscoveryCache())
    except (ApiError, Unreachable, QuantityError) as error:
        log.warning("summary_failed", cluster=cluster, error=str(error))
        return Sample(at=now, online=True, healthy=healthy, summary=None, identity=identity)
    except Exception as error:  # noqa: BLE001 - whatever a member answers, the next look comes
        log.warning("summary_failed", cluster=cluster, error=f"{type(error).__name__}: {error}"[:500])
        return Sample(at=now, online=True, healthy=healthy, summary=None, identity=identity)
    return Sample(at=now, online=True, healthy=healthy, summary=summary, identity=identity)


async def _health(client: KubeClient) -> bool:
    try:
        answer = await client.request("GET", "/readyz", accept="*/*", timeout=10.0)
    except ApiError as error:
        if error.status != 404:
            raise
        answer = await client.request("GET", "/healthz", accept="*/*", timeout=10.0)
    if answer.lstrip().startswith(b"<"):
        raise BadAnswer(f"GET {client.server}/readyz: it answers with a page for people instead of its health")
    return True


async def _collect(client: KubeClient, models: list[Manifest], served: DiscoveryCache) -> Manifest:
    version = readable(_version, await client.request("GET", "/version"), "a version")
    resources = await served.of(client)
    nodes: list[CompactObject] = []
    await _each(client, "nodes", Nodes(), nodes.append)
    pods = PodSums(by_node=bool(models))
    await _each(client, "pods", PodsOnNodes(), lambda pod: pods.take(pod.manifest))
    return summarise(version.git_version, resources, Manifests(nodes), pods, models)


async def _each(
    client: KubeClient, resource: str, reading: Reading[CompactObject], take: Callable[[CompactObject], None]
) -> None:
    """Hand what counts of every object of a kind to `take`."""

    def taken(raw: Raw) -> None:
        found = reading.read(raw, "v1", "")
        if found is not None:
            take(found)

    reading.begin()
    await each_item(client, resource_path("", "v1", resource), taken)


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
    nodes: Iterable[Manifest],
    pods: PodSums,
    models: list[Manifest],
) -> Manifest:
    """The collected part of a Cluster status; raises quantity.QuantityError."""
    counted = node_summary(nodes)
    sums = pods.summary(nodes)
    summary: Manifest = {
        "allocatable": _written(sums.allocatable),
        "allocated": _written(sums.allocated),
        "allocating": _written(sums.allocating),
    }
    modelings = allocatable_modelings(models, nodes, pods.by_node) if models else None
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

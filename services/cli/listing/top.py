"""The command `karmadactl top`: what pods and nodes of members use, from each member's own metrics API.

Source: docs/sources.md#commands.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, Unreachable, resource_path
from services._rules.kubernetes.quantity import QuantityError
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed, complain, patience
from services.cli.listing.listing_options import PodTopQuery, TopQuery
from services.cli.listing.object_reading import read_all, trouble_of
from services.cli.listing.usage_tables import (
    Usage,
    in_order,
    node_table,
    pod_table,
    usage_of_node,
    usage_of_pod,
)
from services.cli.members.clusters import Endpoint, members

_GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_YOUNG_SECONDS: Final = 120.0
"""So long a pod may be without metrics: they are gathered now and then."""


class NoMetrics(Exception):
    """A member serves no metrics."""


class _Answer(Struct, frozen=True):
    usages: tuple[Usage, ...] = ()
    troubles: tuple[str, ...] = ()


async def top_pods(target: ControlPlaneOptions, query: TopQuery, pods: PodTopQuery) -> int:
    """Print what pods use; 1 when a member refused or did not answer, 0 otherwise. Raises Failed."""
    if len(pods.names) > 1:
        raise Failed("name one pod, or none for all")
    if pods.names and (query.selector or pods.field_selector):
        raise Failed("only one of NAME or selector can be provided")
    if pods.names and pods.all_namespaces:
        raise Failed("a pod cannot be named across all namespaces; drop -A, or give -n")
    async with open_control(target) as control, patience("asking the clusters"):
        namespace = "" if pods.all_namespaces else pods.namespace or control.namespace
        found = await members(control.client, query.clusters)
        answers = await each_of(found, lambda endpoint: pods_of(endpoint, namespace, query, pods))
    usages = in_order([usage for answer in answers for usage in answer.usages], query.sort_by)
    text = pod_table(
        usages,
        namespaces=pods.all_namespaces,
        containers=pods.containers,
        total=pods.total and bool(usages),
        no_headers=query.no_headers,
    )
    return _print(text if usages else "", answers, f"No resources found in {namespace} namespace." if namespace else "")


async def top_nodes(target: ControlPlaneOptions, query: TopQuery, names: Sequence[str], *, capacity: bool) -> int:
    """Print what nodes use; 1 when a member refused or did not answer, 0 otherwise. Raises Failed."""
    if len(names) > 1:
        raise Failed("name one node, or none for all")
    if names and query.selector:
        raise Failed("only one of NAME or selector can be provided")
    async with open_control(target) as control, patience("asking the clusters"):
        found = await members(control.client, query.clusters)
        answers = await each_of(found, lambda endpoint: _nodes_of(endpoint, query, names, capacity=capacity))
    usages = in_order([usage for answer in answers for usage in answer.usages], query.sort_by)
    return _print(node_table(usages, no_headers=query.no_headers) if usages else "", answers, "")


async def each_of(endpoints: Sequence[Endpoint], ask: Callable[[Endpoint], Awaitable[_Answer]]) -> list[_Answer]:
    """What every member answers; what went wrong with one is part of its answer."""

    async def one(endpoint: Endpoint) -> _Answer:
        try:
            return await ask(endpoint)
        except (ApiError, Unreachable) as error:
            return _Answer(troubles=(trouble_of(endpoint, error),))
        except NoMetrics:
            return _Answer(troubles=(f"error: cluster({endpoint.name}): Metrics API not available",))
        except (QuantityError, KeyError, TypeError, AttributeError) as error:
            return _Answer(troubles=(f"error: cluster({endpoint.name}): its metrics cannot be read: {error}",))

    if not endpoints:
        complain("No member clusters found in the control plane.")
    return await asyncio.gather(*map(one, endpoints))


async def _metrics(endpoint: Endpoint, path: str, name: str, params: dict[str, str]) -> list[Manifest]:
    """Metrics of a member; raises NoMetrics where it serves none, ApiError and Unreachable."""
    try:
        if name:
            return [await endpoint.client.get(f"{path}/{name}")]
        return await read_all(endpoint, path, params)
    except ApiError as error:
        if error.status != 404 or (name and error.reason == "NotFound"):
            raise
        raise NoMetrics from None


async def pods_of(endpoint: Endpoint, namespace: str, query: TopQuery, pods: PodTopQuery) -> _Answer:
    selectors = {"labelSelector": query.selector, "fieldSelector": pods.field_selector}
    params = {key: value for key, value in selectors.items() if value}
    name = pods.names[0] if pods.names else ""
    try:
        items = await _metrics(endpoint, resource_path(_GROUP, _VERSION, "pods", namespace), name, params)
    except ApiError as error:
        if not name or error.status != 404:
            raise
        items = []
    if items:
        return _Answer(
            tuple(u for item in items for u in usage_of_pod(endpoint.name, item, containers=pods.containers))
        )
    path = resource_path("", "v1", "pods", namespace)
    there = [await endpoint.client.get(f"{path}/{name}")] if name else await read_all(endpoint, path, params)
    return _Answer(troubles=tuple(_without_metrics(endpoint.name, there)))


def _without_metrics(cluster: str, pods: Sequence[Manifest]) -> list[str]:
    """What to say about pods without metrics: nothing where there are none, else that they are young, or too old."""
    if not pods:
        return []
    now = time.time()
    for pod in pods:
        created = str(pod["metadata"].get("creationTimestamp") or "")
        age = now - datetime.fromisoformat(created).timestamp() if created else 0.0
        if age > _YOUNG_SECONDS:
            place = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
            return [f"error: cluster({cluster}): Metrics not available for pod {place}, age: {age:.0f}s"]
    return [f"error: cluster({cluster}): metrics not available yet"]


async def _nodes_of(endpoint: Endpoint, query: TopQuery, names: Sequence[str], *, capacity: bool) -> _Answer:
    params = {"labelSelector": query.selector} if query.selector else {}
    name = names[0] if names else ""
    items = await _metrics(endpoint, resource_path(_GROUP, _VERSION, "nodes"), name, params)
    if not items:
        return _Answer(troubles=(f"error: cluster({endpoint.name}): metrics not available yet",))
    by_name = {item["metadata"]["name"]: item for item in items}
    path = resource_path("", "v1", "nodes")
    nodes = [await endpoint.client.get(f"{path}/{name}")] if name else await read_all(endpoint, path, params)
    return _Answer(
        tuple(
            usage_of_node(endpoint.name, node, by_name.get(node["metadata"]["name"]), capacity=capacity)
            for node in nodes
        )
    )


def _print(text: str, answers: Sequence[_Answer], none: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    troubles = [trouble for answer in answers for trouble in answer.troubles]
    for trouble in troubles:
        complain(trouble)
    if not text and not troubles and answers:
        complain(none or "No resources found")
    return 1 if troubles else 0

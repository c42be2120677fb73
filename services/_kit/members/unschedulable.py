"""Counts the pods of a Deployment in one member that are unschedulable for some time (docs/sources.md#estimators)."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._kit.kube.client import BadAnswer, KubeClient, resource_path
from services._rules.capacity.unschedulable_pods import MemberWaiting, newest_replica_set


class NotCounted(ValueError):
    """What was asked about has no replicas that could be counted; the message names it."""


async def unschedulable_replicas(
    client: KubeClient, waiting: MemberWaiting, workload: Manifest, threshold: float, now: float
) -> int:
    """Pods of the Deployment's present template that have been unschedulable for longer than `threshold` seconds.

    `workload` has kind, namespace and name. Raises NotCounted for other kinds, ApiError (404 where it does not exist),
    Unreachable and BadAnswer.
    """
    kind, namespace, name = (str(workload.get(part) or "") for part in ("kind", "namespace", "name"))
    if kind != "Deployment":
        raise NotCounted(f"kind({kind}) of workload({namespace}/{name}) is not supported")
    if threshold < 0 or not namespace or not name:
        return 0
    deployment = await client.get(resource_path("apps", "v1", "deployments", namespace, name))
    path = resource_path("apps", "v1", "replicasets", namespace)
    try:
        selector = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        params = {"labelSelector": ",".join(f"{label}={value}" for label, value in sorted(selector.items()))}
        sets = (await client.get(path, params=params if selector else {})).get("items") or ()
        newest = newest_replica_set(deployment, sets)
        if newest is None:
            return 0
        return waiting.count(namespace, newest["metadata"].get("uid", ""), selector, now - threshold)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(f"GET {client.server}{path}: Deployment or ReplicaSets are none: {error}") from error

"""Writes objects to a host cluster, and waits until a workload is ready there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.cli.common.running import Failed, NotReady, patience
from services.cli.common.waiting import wait_until

MANAGER: Final = "karmadactl"
_NOT_APPLIED: Final = ("APIService",)
"""Kinds that a kube-apiserver 1.20 cannot apply: it breaks the connection off."""
_APPLY: Final = "application/apply-patch+yaml"
_PLURALS: Final = {"NetworkPolicy": "networkpolicies"}
_BAD_WAITING: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"})


def path_of(kind: str, api_version: str, namespace: str = "", name: str = "") -> str:
    """Where objects of one of the kinds that are installed are, or one of them."""
    group, slash, version = api_version.partition("/")
    if not slash:
        group, version = "", group
    return resource_path(group, version, _PLURALS.get(kind, f"{kind.lower()}s"), namespace, name)


async def put(client: KubeClient, item: Manifest) -> None:
    """Create an object, or make it what is given; fields that others own stay."""
    metadata = item["metadata"]
    path = path_of(item["kind"], item["apiVersion"], metadata.get("namespace", ""), metadata["name"])
    try:
        if item["kind"] in _NOT_APPLIED:
            await _written(client, path, item)
            return
        await client.request(
            "PATCH",
            path,
            params={"fieldManager": MANAGER, "force": "true"},
            body=msgspec.json.encode(item),
            content_type=_APPLY,
        )
    except ApiError as error:
        raise Failed(f"{item['kind']} {metadata['name']} cannot be written: {error.message or error}") from None


async def _written(client: KubeClient, path: str, item: Manifest) -> None:
    try:
        await client.create(path.rpartition("/")[0], item)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        await client.patch(path, item)


async def until_ready(
    client: KubeClient,
    kind: str,
    namespace: str,
    name: str,
    seconds: float,
    flag: str = "--wait-component-ready-timeout",
) -> None:
    """Wait until every instance of a workload is ready; 0 seconds: for ever.

    Raises Failed, saying what is missing and by which flag there is more time.
    """
    path = path_of(kind, "apps/v1", namespace, name)

    async def look() -> str:
        try:
            return missing(await client.get(path))
        except (ApiError, Unreachable) as error:
            return str(error)

    try:
        async with patience(f"waiting for {name}"):
            await wait_until(f"{kind} {namespace}/{name}", look, seconds or math.inf)
    except NotReady as error:
        why = await _why(client, namespace, name)
        raise Failed(
            f"{error} within {seconds:g} s{why}; see `kubectl -n {namespace} describe {kind.lower()} {name}`, and give "
            f"it more time with {flag}"
        ) from None


def missing(workload: Manifest) -> str:
    """What a Deployment or StatefulSet lacks to be ready; empty when it is."""
    status = workload.get("status") or {}
    wanted = workload["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 1):
        return "its change has not been seen yet"
    updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    return "" if min(updated, ready) >= wanted else f"{ready} of {wanted} instances are ready"


async def _why(client: KubeClient, namespace: str, name: str) -> str:
    """What keeps its pods, as far as they say it."""
    pods = path_of("Pod", "v1", namespace)
    try:
        listed = await client.get(f"{pods}?labelSelector=app.kubernetes.io%2Fname%3D{name}")
    except (ApiError, Unreachable):
        return ""
    reasons = reasons_of(listed.get("items") or ())
    return f" ({'; '.join(reasons)})" if reasons else ""


def reasons_of(pods: Sequence[Manifest]) -> list[str]:
    """Why pods are not ready, each reason once."""
    found: dict[str, None] = {}
    for pod in pods:
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _BAD_WAITING:
                found[f"{waiting['reason']}: {waiting.get('message') or container.get('image')}"] = None
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                found[f"not scheduled: {condition.get('message') or condition.get('reason')}"] = None
    return list(found)

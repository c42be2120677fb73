"""Writes objects to a host cluster, and waits until a workload is ready there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.cli.common.running import Failed, NotReady, complain, reporting
from services.cli.common.waiting import wait_until

MANAGER: Final = "karmadactl"
_NOT_APPLIED: Final = ("APIService",)
"""Kinds that a kube-apiserver 1.20 cannot apply: it breaks the connection off."""
_TELLS_AFTER: Final = 15.0
"""Seconds after which it is said why something is not ready, and again when the reason changes."""
_TELLS_EVERY: Final = 5.0
_LONGEST: Final = 400
_NAMED: Final = 3
READY_TIMEOUT: Final = "--wait-component-ready-timeout"
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


async def remove(client: KubeClient, path: str, propagation: str = "") -> None:
    """Delete an object, if it is there."""
    try:
        await client.delete(path, propagation=propagation)
    except ApiError as error:
        if error.status != 404:
            raise


async def _written(client: KubeClient, path: str, item: Manifest) -> None:
    try:
        await client.create(path.rpartition("/")[0], item)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        await client.patch(path, item)


async def until_ready(
    client: KubeClient, kind: str, namespace: str, name: str, seconds: float, flag: str = READY_TIMEOUT
) -> None:
    """Wait until every instance of a workload is ready; see `all_ready`."""
    await all_ready(client, namespace, [(kind, name)], seconds, flag)


async def all_ready(
    client: KubeClient,
    namespace: str,
    workloads: Sequence[tuple[str, str]],
    seconds: float,
    flag: str = READY_TIMEOUT,
    became_ready: Callable[[str], object] = str,
) -> None:
    """Wait until every instance of all these workloads (kind and name) is ready; 0 seconds: for ever.

    The time begins again whenever one of them gets ready: where many start at once, each is slow. Raises Failed, saying
    what is missing and by which flag there is more time.
    """
    waiting = dict.fromkeys(workloads, "")
    told: dict[str, str] = {}
    began = looked = time.monotonic()

    async def look() -> str:
        nonlocal looked
        before = len(waiting)
        for kind, name in list(waiting):
            try:
                lack = missing(await client.get(path_of(kind, "apps/v1", namespace, name)))
            except (ApiError, Unreachable) as error:
                lack = str(error)
            waiting[kind, name] = lack
            if not lack:
                del waiting[kind, name]
                became_ready(name)
        now = time.monotonic()
        if waiting and now - began > _TELLS_AFTER and now - looked > _TELLS_EVERY:
            looked = now
            for _, name in list(waiting)[:_NAMED]:
                why = await _why(client, namespace, name)
                if why not in ("", told.get(name)):
                    told[name] = why
                    complain(f"{name} is not ready yet{why}")
        return (
            ""
            if len(waiting) < before
            else "; ".join(
                f"{kind} {namespace}/{name}: {lack}" for (kind, name), lack in list(waiting.items())[:_NAMED]
            )
        )

    def names() -> str:
        first, more = [name for _, name in list(waiting)[:_NAMED]], len(waiting) - _NAMED
        return ", ".join(first) + (f" and {more} more" if more > 0 else "")

    while waiting:
        first = next(iter(waiting))
        try:
            async with reporting(lambda _: complain(f"waiting for {names()} … ({time.monotonic() - began:.0f} s)")):
                await wait_until(f"{first[0]} {namespace}/{first[1]}", look, seconds or math.inf)
        except NotReady:
            (kind, name), lack = next(iter(waiting.items()))
            why = await _why(client, namespace, name)
            others = f"; {names()} are not ready" if len(waiting) > 1 else ""
            raise Failed(
                f"{kind} {namespace}/{name}: {lack} within {seconds:g} s{why}{others}; see "
                f"`kubectl -n {namespace} describe {kind.lower()} {name}`, and give it more time with {flag}"
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
    found = listed.get("items") or ()
    reasons = reasons_of(found)
    for pod in () if reasons else found:
        if words := await _last_words(client, pods, pod):
            reasons.append(words)
    return f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""


async def _last_words(client: KubeClient, pods: str, pod: Manifest) -> str:
    """The reason of the last warning in the log of a pod that runs and is not ready; empty without one."""
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    if ready or status.get("phase") != "Running":
        return ""
    try:
        text = await client.request(
            "GET", f"{pods}/{pod['metadata']['name']}/log", params={"tailLines": "50"}, accept="*/*"
        )
    except (ApiError, Unreachable):
        return ""
    for line in reversed(text.decode("utf-8", "replace").splitlines()):
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            continue
        if entry.get("level") in ("warning", "error"):
            return f"{entry.get('event')}: {entry.get('reason', '')}"[:_LONGEST]
    return ""


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

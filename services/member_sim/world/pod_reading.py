"""Reads pods: active, ready, available, when something about them will change; and builds pods from templates."""

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from schemas.manifest import Manifest
from services.member_sim.world.world_model import Config, condition, is_true, owner_reference, seconds
from services.member_sim.world.world_state import State

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
REVISION_LABEL = "controller-revision-hash"
_encode = msgspec.json.Encoder(order="sorted").encode


class Counts(NamedTuple):
    """How many pods of a set exist, are ready and are available, and when the next becomes available."""

    active: int
    ready: int
    available: int
    next_available: float | None


def is_active(pod: Manifest) -> bool:
    """Return whether the pod counts as a replica: neither finished nor being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and not is_finished(pod)


def is_finished(pod: Manifest) -> bool:
    """Return whether the pod is in a terminal phase."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Manifest) -> bool:
    """Return whether the pod's condition Ready is True."""
    return is_true(pod, "Ready")


def available_at(pod: Manifest, min_ready: int) -> float | None:
    """Return since or from when the pod counts as available; none while it is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    return 0.0 if not min_ready else seconds(ready.get("lastTransitionTime") or "") + min_ready


def count(pods: Iterable[Manifest], min_ready: int, now: float) -> Counts:
    """Count the active ones among some pods."""
    active = ready = available = 0
    upcoming: float | None = None
    for pod in pods:
        if not is_active(pod):
            continue
        active += 1
        since = available_at(pod, min_ready)
        if since is None:
            continue
        ready += 1
        if since <= now:
            available += 1
        elif upcoming is None or since < upcoming:
            upcoming = since
    return Counts(active, ready, available, upcoming)


def starts_at(state: State, pod: Manifest, config: Config) -> float | None:
    """Return when a placed pod's containers run; on a grid, so that pods placed together start together."""
    placed = state.placed_at.get(pod["metadata"]["uid"])
    if placed is None:
        return None
    if not config.ready_delay:
        return placed
    tick = config.tick
    return -(-(placed + config.ready_delay) // tick) * tick


def starting(state: State, pods: Iterable[Manifest], config: Config, now: float) -> float | None:
    """Return when the first of these pods that has not started will, as far as its node lets it.

    A status written before then would be written again right after, so that callers wait for this moment; a time
    that is past means that the change is on its way.
    """
    first: float | None = None
    for pod in pods:
        if (pod.get("status") or {}).get("phase", "Pending") != "Pending" or "deletionTimestamp" in pod["metadata"]:
            continue
        if pod["spec"].get("nodeName") in state.down or state.crashes(pod):
            continue
        start = starts_at(state, pod, config)
        if start is not None and start > now - 1 and (first is None or start < first):
            first = start
    return first


def template_hash(template: Manifest, collisions: int = 0) -> str:
    """Return the name suffix of a template: equal for equal templates, safe in names, at most ten characters."""
    digest = zlib.crc32(b"%d" % collisions, zlib.crc32(_encode(template)))
    return "".join(NAME_LETTERS[ord(digit) % 27] for digit in str(digest))


def pod_from(
    resource: str,
    owner: Manifest,
    template: Manifest,
    *,
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: Manifest | None = None,
) -> Manifest:
    """Return the pod that a workload makes from a template; spec keys given here replace the template's."""
    meta = template.get("metadata") or {}
    metadata: Manifest = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    if meta.get("annotations") or annotations:
        metadata["annotations"] = {**(meta.get("annotations") or {}), **(annotations or {})}
    if meta.get("finalizers"):
        metadata["finalizers"] = meta["finalizers"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**(template.get("spec") or {}), **(spec or {})},
    }


def victims(pods: list[Manifest], excess: int) -> list[Manifest]:
    """Return the pods to remove first: unplaced, pending, unready, cheap to delete, young."""

    def rank(pod: Manifest) -> tuple[bool, bool, bool, int, float]:
        annotations = pod["metadata"].get("annotations") or {}
        try:
            cost = int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
        except ValueError:
            cost = 0
        return (
            bool(pod["spec"].get("nodeName")),
            (pod.get("status") or {}).get("phase") == "Running",
            is_ready(pod),
            cost,
            -seconds(pod["metadata"].get("creationTimestamp") or ""),
        )

    return sorted(pods, key=rank)[:excess]

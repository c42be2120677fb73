"""Pods of one member that its scheduler finds no node for, and how many of a workload wait too long.

Source: docs/sources.md#estimators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest

_HASH: Final = "pod-template-hash"


class _Waiting(Struct, frozen=True):
    """A pod without a node: its controller, the start of its wait (seconds since 1970), and its labels."""

    controller: str
    since: float
    labels: Mapping[str, str]


class MemberWaiting:
    """The pods of one member that wait for a node; all others are dropped at the door."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], _Waiting] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def list_pods(self, manifests: Iterable[Manifest]) -> None:
        """Take a complete list of pods."""
        listed = MemberWaiting()
        for manifest in manifests:
            listed.put_pod(manifest)
        self.take_pods_of(listed)

    def take_pods_of(self, listed: MemberWaiting) -> None:
        """Take a complete list of pods that was put together elsewhere, pod by pod."""
        self._pods = listed._pods

    def put_pod(self, manifest: Manifest) -> None:
        """Take one pod, new or changed."""
        metadata = manifest["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        since = None if (manifest.get("spec") or {}).get("nodeName") else _unschedulable_since(manifest)
        if since is None:
            self._pods.pop(key, None)
            return
        self._pods[key] = _Waiting(_controller(metadata), since, metadata.get("labels") or {})

    def drop_pod(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        self._pods.pop((namespace, name), None)

    def count(self, namespace: str, controller: str, selector: Mapping[str, str], before: float) -> int:
        """Pods of a controller (its uid) with these labels that were found unschedulable before a time."""
        return sum(
            1
            for (found, _), pod in self._pods.items()
            if found == namespace
            and pod.controller == controller
            and pod.since < before
            and selector.items() <= pod.labels.items()
        )


def newest_replica_set(deployment: Manifest, sets: Iterable[Manifest]) -> Manifest | None:
    """The ReplicaSet of a Deployment's present template, the oldest if there are several; None without any."""
    uid = deployment["metadata"].get("uid", "")
    wanted = _template(deployment)
    found = [item for item in sets if _controller(item["metadata"]) == uid and _template(item) == wanted]
    return min(
        found,
        key=lambda item: (item["metadata"].get("creationTimestamp") or "", item["metadata"].get("name", "")),
        default=None,
    )


def _template(manifest: Manifest) -> Manifest:
    """The pod template without the label that ReplicaSets differ in."""
    template: Manifest = (manifest.get("spec") or {}).get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != _HASH}
    kept = {name: value for name, value in metadata.items() if name not in ("labels", "creationTimestamp") and value}
    return {**template, "metadata": {**kept, "labels": labels}}


def _controller(metadata: Manifest) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")


def _unschedulable_since(manifest: Manifest) -> float | None:
    for condition in (manifest.get("status") or {}).get("conditions") or ():
        if condition.get("type") != "PodScheduled":
            continue
        if condition.get("status") != "False" or condition.get("reason") != "Unschedulable":
            return None
        try:
            return datetime.fromisoformat(condition.get("lastTransitionTime") or "").timestamp()
        except ValueError:
            return None
    return None

"""Nodes of one member with what is left on each, kept up to date pod by pod; a few hundred bytes for a node or pod.

What does not decide whether a pod fits is dropped at the door. A change gives the same answers as a complete
list after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.capacity.node_estimate import Amounts, Node, finished, pod_request, units_of
from services._rules.kubernetes.quantity import QuantityError
from services._rules.kubernetes.taints import Taint

PodKey = tuple[str, str]

_NOWHERE: Final[dict[str, int]] = {}
_SHAPES: Final = 4096


class _Held(Struct, frozen=True):
    """What one pod holds, and on which node."""

    node: str
    amounts: tuple[tuple[str, int], ...]


class MemberRooms:
    """The compact view of one member; `version` grows with everything that may change an answer."""

    def __init__(self) -> None:
        self.version = 0
        self._listed: set[str] = set()
        self._nodes: dict[str, Node] = {}
        """As if no pod were on them."""
        self._pods: dict[PodKey, _Held] = {}
        self._used: dict[str, Amounts] = {}
        self._counts: dict[str, int] = {}
        self._shapes: dict[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = {}
        """One copy of each set of requests: replicas ask for the same."""
        self._made: dict[str, Node] = {}

    @property
    def complete(self) -> bool:
        """Whether both lists were seen."""
        return len(self._listed) == 2

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of nodes and of pods on nodes."""
        return len(self._nodes), len(self._pods)

    def nodes(self) -> list[Node]:
        """All nodes, as they were listed, with what is left on them: sets of components take the first that fits.

        Only those that changed are computed.
        """
        for name in self._nodes:
            if name not in self._made:
                self._made[name] = self._make(name)
        return [self._made[name] for name in self._nodes]

    def list_nodes(self, manifests: Iterable[Manifest]) -> None:
        """Take a complete list of nodes."""
        self._listed.add("nodes")
        self._nodes.clear()
        self._made.clear()
        self.version += 1
        for manifest in manifests:
            self.put_node(manifest)

    def list_pods(self, manifests: Iterable[Manifest]) -> None:
        """Take a complete list of pods."""
        listed = MemberRooms()
        for manifest in manifests:
            listed.put_pod(manifest)
        self.take_pods_of(listed)

    def take_pods_of(self, listed: MemberRooms) -> None:
        """Take a complete list of pods that was put together elsewhere, pod by pod."""
        self._listed.add("pods")
        self._pods, self._used, self._counts = listed._pods, listed._used, listed._counts
        self._shapes = listed._shapes
        self._made.clear()
        self.version += 1

    def put_node(self, manifest: Manifest) -> None:
        """Take one node, new or changed; one that cannot be read offers nothing."""
        read = _read_node(manifest)
        if self._nodes.get(read.name) == read:
            return
        self._nodes[read.name] = read
        self._changed(read.name)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self._changed(name)

    def put_pod(self, manifest: Manifest) -> None:
        """Take one pod, new or changed; without a node, or ended, it holds nothing."""
        metadata = manifest["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        node = (manifest.get("spec") or {}).get("nodeName") or ""
        if not node or finished(manifest):
            self._release(key)
            return
        amounts = tuple(sorted(_request(manifest).items()))
        held = self._pods.get(key)
        if held is not None and held.node == node and held.amounts == amounts:
            return
        self._release(key)
        if len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        amounts = self._shapes.setdefault(amounts, amounts)
        self._pods[key] = _Held(node, amounts)
        self._count(node, amounts, 1)

    def drop_pod(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        self._release((namespace, name))

    def _release(self, key: PodKey) -> None:
        held = self._pods.pop(key, None)
        if held is not None:
            self._count(held.node, held.amounts, -1)

    def _count(self, node: str, amounts: tuple[tuple[str, int], ...], sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, units in amounts:
            used[name] = used.get(name, 0) + sign * units
        self._counts[node] = self._counts.get(node, 0) + sign
        if not self._counts[node]:
            del self._counts[node], self._used[node]
        self._changed(node)

    def _changed(self, node: str) -> None:
        self._made.pop(node, None)
        self.version += 1

    def _make(self, name: str) -> Node:
        node, used = self._nodes[name], self._used.get(name, _NOWHERE)
        return msgspec.structs.replace(
            node,
            free={key: max(units - used.get(key, 0), 0) for key, units in node.free.items()},
            pods=max(node.pods - self._counts.get(name, 0), 0),
        )


def _read_node(manifest: Manifest) -> Node:
    name, spec = manifest["metadata"]["name"], manifest.get("spec") or {}
    try:
        allocatable = units_of((manifest.get("status") or {}).get("allocatable"))
        taints = tuple(msgspec.convert(item, Taint) for item in spec.get("taints") or ())
    except (QuantityError, msgspec.ValidationError):
        return Node(name, {}, (), True, {}, 0)
    pods = allocatable.pop("pods", 0)
    labels = manifest["metadata"].get("labels") or {}
    return Node(name, labels, taints, bool(spec.get("unschedulable")), allocatable, pods)


def _request(manifest: Manifest) -> Amounts:
    """Requests of a pod; one that cannot be read takes a slot and nothing else."""
    try:
        return pod_request(manifest)
    except QuantityError:
        return {}

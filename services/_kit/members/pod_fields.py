"""Reads from nodes and pods only the fields that capacity is computed from: a member has thousands of large objects.

What is kept of one list is bounded. Pods with equal requests share one object for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, to_builtins

from schemas.manifest import Manifest
from services._kit.base import answer_limits as limits
from services._kit.kube.answers.shapes import readable
from services._kit.kube.api import BadAnswer
from services._kit.kube.client import decode

_POD_BYTES: Final = 80
"""What a pod takes beside the text of its metadata."""
_NODE_BYTES: Final = 500
"""What a node takes beside its text, once its labels and supply are decoded."""
_SHAPE_TIMES: Final = 6
"""How much more decoded requests take than their text."""
_SHAPES: Final = 4096


class _Resources(Struct, omit_defaults=True, gc=False):
    requests: dict[str, Any] | None = None


class _Container(Struct, omit_defaults=True, gc=False):
    resources: _Resources | None = None


class _Spec(Struct, rename="camel", omit_defaults=True, gc=False):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None


class _Condition(Struct, rename="camel", omit_defaults=True, gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_transition_time: str | None = None


class _PodStatus(Struct, omit_defaults=True, gc=False):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Owner(Struct, omit_defaults=True, gc=False):
    uid: str | None = None
    controller: bool | None = None


class _Metadata(Struct, rename="camel", omit_defaults=True, gc=False):
    name: str = ""
    namespace: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Pod(Struct, omit_defaults=True, gc=False):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _PodStatus | None = None


class _Own(Struct, gc=False):
    metadata: _Metadata


class _Taint(Struct, rename="camel", omit_defaults=True, gc=False):
    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: str | None = None


class _NodeSpec(Struct, omit_defaults=True, gc=False):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _NodeStatus(Struct, omit_defaults=True, gc=False):
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None


class _Node(Struct, omit_defaults=True, gc=False):
    metadata: _Metadata
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_pod: Final = msgspec.json.Decoder(_Pod)
_node: Final = msgspec.json.Decoder(_Node)
_encode: Final = msgspec.json.Encoder().encode
T = TypeVar("T", _Pod, _Node)


class CompactObject(Struct, frozen=True, gc=False):
    """What counts of one object: its own part as JSON, and the part that it shares with others."""

    own: bytes
    shared: Manifest

    @property
    def manifest(self) -> Manifest:
        """The object, decoded again with every call."""
        return {**self.shared, **decode(self.own)}


class Manifests:
    """Objects that are decoded one by one each time they are iterated over."""

    def __init__(self, objects: Sequence[CompactObject]) -> None:
        self._objects = objects

    def __iter__(self) -> Iterator[Manifest]:
        return (each.manifest for each in self._objects)


class _Counted:
    """Objects of which so much is kept as the limit of a list allows."""

    def __init__(self) -> None:
        self._kept = 0
        self._most = limits.in_force().list_kept_bytes

    def begin(self) -> None:
        """A list begins."""
        self._kept = 0

    def keep(self, size: int) -> None:
        """Count bytes of memory; raises BadAnswer."""
        self._kept += size
        if self._kept > self._most:
            raise BadAnswer(f"what counts of its objects takes more than {self._most} bytes")

    def version(self, found: CompactObject) -> str:
        """From its metadata."""
        return str(found.manifest["metadata"].get("resourceVersion") or "")


def _named(decoder: msgspec.json.Decoder[T], raw: Raw, what: str) -> T:
    found = readable(decoder, raw, what)
    if not found.metadata.name:
        raise BadAnswer(f"{what} has no metadata.name")
    return found


class Nodes(_Counted):
    """Nodes with the fields that supply is computed from."""

    def read(self, raw: Raw, api_version: str, kind: str) -> CompactObject:
        """What counts of a node."""
        found = _named(_node, raw, "a node")
        found.metadata.owner_references = None
        if found.status is not None and found.status.conditions is not None:
            ready = [item for item in found.status.conditions if item.type == "Ready"]
            found.status.conditions = [_Condition(type=item.type, status=item.status) for item in ready]
        own = _encode(found)
        self.keep(len(own) + _NODE_BYTES)
        return CompactObject(own, {})


class PodsOnNodes(_Counted):
    """Pods with the fields that use is computed from; a pending one also has its reason, start and controller."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[bytes, Manifest] = {}

    def begin(self) -> None:
        """A list begins."""
        super().begin()
        self._shapes.clear()

    def read(self, raw: Raw, api_version: str, kind: str) -> CompactObject:
        """What counts of a pod."""
        found = _named(_pod, raw, "a pod")
        metadata = found.metadata
        if found.spec is not None and found.spec.node_name:
            metadata.labels = metadata.owner_references = None
            if found.status is not None:
                found.status.conditions = None
        if metadata.namespace is None:
            metadata.namespace = ""
        own = _encode(_Own(metadata))
        metadata.name = ""
        metadata.namespace = metadata.resource_version = metadata.labels = metadata.owner_references = None
        text = _encode(found)
        shape = self._shapes.get(text)
        self.keep(len(own) + _POD_BYTES)
        if shape is None:
            self.keep(_SHAPE_TIMES * len(text))
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            shape = self._shapes[text] = to_builtins(found)
        return CompactObject(own, shape)

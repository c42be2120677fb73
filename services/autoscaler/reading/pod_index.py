"""Keeps the pods of one member as decisions about replicas see them, found by the labels of a selector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._rules.autoscaling.pod_readings import PodView, pod_view
from services._rules.kubernetes.selectors import Selector

_LABEL_TEXTS: Final = 65_536


class Shape(Struct, frozen=True, gc=False):
    """One pod: where it is, its labels, and what decides whether its sample counts."""

    namespace: str
    name: str
    version: str
    labels: Mapping[str, str]
    view: PodView


class _Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class _Resources(Struct):
    requests: dict[str, str | int | float] | None = None


class _Container(Struct):
    name: str = ""
    resources: _Resources | None = None


class _Spec(Struct):
    containers: list[_Container] | None = None


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(Struct, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    start_time: str | None = None


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decoder: Final = msgspec.json.Decoder(_Pod)


class Shapes:
    """Reads pods of the namespaces that matter; equal labels and requests of pods are one object."""

    def __init__(self, namespaces: frozenset[str]) -> None:
        self.namespaces = namespaces
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._requests: dict[Any, Any] = {}

    def shape(self, raw: Raw | bytes) -> Shape | None:
        """What counts of a pod, None outside of the namespaces; raises msgspec.MsgspecError for what is no pod."""
        pod = _decoder.decode(raw)
        metadata = pod.metadata
        if metadata.namespace not in self.namespaces:
            return None
        view = pod_view(_manifest(pod))
        if len(self._labels) > _LABEL_TEXTS:
            self._labels.clear()
            self._requests.clear()
        labels = metadata.labels or {}
        labels = self._labels.setdefault(tuple(sorted(labels.items())), labels)
        token = tuple((name, tuple(sorted(amounts.items()))) for name, amounts in view.requests)
        requests = self._requests.setdefault(token, view.requests)
        view = msgspec.structs.replace(view, requests=requests)
        return Shape(metadata.namespace, metadata.name, metadata.resource_version, labels, view)


def _manifest(pod: _Pod) -> Manifest:
    found: Manifest = msgspec.to_builtins(pod)
    return found


class PodIndex:
    """The pods by namespace and name, and by each of their labels."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], Shape] = {}
        self._by_label: dict[tuple[str, str, str], set[str]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def listed(self, shapes: Iterable[Shape]) -> None:
        """Take a complete list."""
        self._pods.clear()
        self._by_label.clear()
        for shape in shapes:
            self.put(shape)

    def put(self, shape: Shape) -> None:
        """Take one pod as it is now."""
        place = (shape.namespace, shape.name)
        before = self._pods.get(place)
        if before is not None and before.labels is not shape.labels:
            self.drop(before)
            before = None
        self._pods[place] = shape
        if before is None:
            for key, value in shape.labels.items():
                self._by_label.setdefault((shape.namespace, key, value), set()).add(shape.name)

    def drop(self, shape: Shape) -> None:
        """A pod is gone."""
        known = self._pods.pop((shape.namespace, shape.name), None)
        for key, value in (known.labels if known is not None else {}).items():
            names = self._by_label.get((shape.namespace, key, value))
            if names is not None:
                names.discard(shape.name)
                if not names:
                    del self._by_label[shape.namespace, key, value]

    def selected(self, namespace: str, selector: Selector) -> Iterator[Shape]:
        """The pods of a namespace that a selector matches; one that equals a label looks only at those that have it."""
        names = self._narrowed(namespace, selector)
        for name in sorted(names):
            shape = self._pods[namespace, name]
            if selector.matches(shape.labels):
                yield shape

    def _narrowed(self, namespace: str, selector: Selector) -> Iterable[str]:
        sets: list[AbstractSet[str]] = [
            self._by_label.get((namespace, item.key, item.values[0]), frozenset())
            for item in selector.requirements
            if item.operator == "In" and len(item.values) == 1
        ]
        if sets:
            return min(sets, key=len)
        return [name for space, name in self._pods if space == namespace]

"""The objects of one kind in one member: by key, with what a page of them needs."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from services.search.index.object_shapes import Shape, Shapes
from services.search.index.questions import Question

OVERHEAD: Final = 350
"""Bytes that an object takes in memory beside what it is packed to: its key and its places in dictionaries."""


class Stored(Struct, gc=False):
    """An object at rest: packed JSON with the annotation that says where it comes from, and its shape."""

    data: bytes
    shape: Shape


class MemberPart:
    """One kind of one member. Keys are `namespace/name`, with an empty namespace where the kind has none."""

    def __init__(self, cluster: str, kind: str, shapes: Shapes) -> None:
        self.cluster = cluster
        self.kind = kind
        self.version = ""
        """The resourceVersion up to which the member was read."""
        self.objects: dict[str, Stored] = {}
        self.bytes = 0
        """What the objects take, about."""
        self._shapes = shapes
        self._counts: dict[Shape, int] = {}
        self._sorted: list[str] | None = None

    def put(self, key: str, stored: Stored) -> Stored | None:
        """Keep an object; the one of this key until now."""
        stored.shape = self._shapes.take(stored.shape, 1)
        before = self.objects.get(key)
        self.objects[key] = stored
        self._counts[stored.shape] = self._counts.get(stored.shape, 0) + 1
        self.bytes += len(stored.data) + len(key) + OVERHEAD
        if before is None:
            self._sorted = None
        else:
            self._left(key, before)
        return before

    def drop(self, key: str) -> Stored | None:
        """Forget an object; what it was."""
        before = self.objects.pop(key, None)
        if before is not None:
            self._sorted = None
            self._left(key, before)
        return before

    def clear(self) -> None:
        """Forget all of them."""
        for shape, count in self._counts.items():
            self._shapes.leave(shape, count)
        self._counts.clear()
        self.objects, self._sorted, self.bytes = {}, None, 0

    def keys(self) -> list[str]:
        """All keys in order; not to be changed."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        return self._sorted

    def keys_where(self, shapes: AbstractSet[Shape] | None, question: Question) -> list[str]:
        """Keys in order that pass, of these shapes (None: of any); not to be changed."""
        found: Iterable[str] = self.objects
        whole = True
        if shapes is not None:
            here = self._counts.keys() & shapes
            if not here:
                return []
            if len(here) < len(self._counts):
                whole, found = False, [key for key, stored in self.objects.items() if stored.shape in here]
        for fragment in question.fragments:
            whole, found = False, [key for key in found if fragment in key]
        if question.key is not None:
            whole, found = False, [key for key in found if question.key(key)]
        return self.keys() if whole else sorted(found)

    def _left(self, key: str, stored: Stored) -> None:
        self.bytes -= len(stored.data) + len(key) + OVERHEAD
        left = self._counts[stored.shape] - 1
        if left:
            self._counts[stored.shape] = left
        else:
            del self._counts[stored.shape]
        self._shapes.leave(stored.shape, 1)


def key_of(namespace: str, name: str) -> str:
    """The key of an object."""
    return f"{namespace}/{name}"

"""What many objects of a kind share and are found by: labels, images, phase; kept once for all of them."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from schemas.manifest import Manifest

_REMEMBERED: Final = 16
"""Questions whose answers are kept and extended: those of the pages that follow, and of who asks again."""
_MOST_IMAGES: Final = 32

Key = tuple[tuple[tuple[str, str], ...], tuple[str, ...], str]


class Shape:
    """Labels, images and phase of objects; each is one object in memory, compared by identity."""

    __slots__ = ("images", "key", "labels", "number", "phase", "uses")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.number = 0
        self.labels: dict[str, str] = dict(key[0])
        self.images = key[1]
        self.phase = key[2]
        self.uses = 0


class Shapes:
    """The shapes of one kind in all members; one that no object has any more is forgotten."""

    def __init__(self) -> None:
        self._shapes: dict[Key, Shape] = {}
        self._made = 0
        self._answers: OrderedDict[Hashable, tuple[set[Shape], list[int]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shapes)

    def of(self, manifest: Manifest) -> Shape:
        """The shape of an object; it counts as used once it was taken."""
        key = _key(manifest)
        return self._shapes.get(key) or Shape(_interned(key))

    def take(self, shape: Shape, count: int) -> Shape:
        """Count uses of a shape; the one that counts from now on, which is another where an equal one was there."""
        known = self._shapes.setdefault(shape.key, shape)
        if known is shape and not shape.uses:
            self._made += 1
            shape.number = self._made
        known.uses += count
        return known

    def leave(self, shape: Shape, count: int) -> None:
        """Objects of a shape are gone."""
        shape.uses -= count
        if shape.uses <= 0 and self._shapes.get(shape.key) is shape:
            del self._shapes[shape.key]
            for found, _ in self._answers.values():
                found.discard(shape)

    def matching(self, question: Hashable, test: Callable[[Shape], bool]) -> set[Shape]:
        """The shapes that pass a test; `question` is equal for equal tests."""
        found, seen = self._answers.setdefault(question, (set(), [0]))
        self._answers.move_to_end(question)
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        for shape in self._later_than(seen[0]):
            if test(shape):
                found.add(shape)
        seen[0] = self._made
        return found

    def _later_than(self, number: int) -> Iterator[Shape]:
        """Those that were made since; the newest come first."""
        for shape in reversed(self._shapes.values()):
            if shape.number <= number:
                return
            yield shape


def _key(manifest: Manifest) -> Key:
    labels = manifest["metadata"].get("labels") or {}
    status = manifest.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    return tuple(sorted(labels.items())), images_of(manifest), phase if isinstance(phase, str) else ""


def images_of(manifest: Manifest) -> tuple[str, ...]:
    """Images that an object's containers run, those of a pod template included."""
    spec = _mapping(manifest.get("spec"))
    template = _mapping(_mapping(spec.get("template")).get("spec"))
    job = _mapping(_mapping(_mapping(spec.get("jobTemplate")).get("spec")).get("template"))
    found: dict[str, None] = {}
    for holder in (spec, template, _mapping(job.get("spec"))):
        for field in ("initContainers", "containers"):
            containers = holder.get(field)
            for container in containers if isinstance(containers, list) else ():
                image = container.get("image") if isinstance(container, dict) else None
                if isinstance(image, str) and len(found) < _MOST_IMAGES:
                    found[image] = None
    return tuple(found)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _interned(key: Key) -> Key:
    labels, images, phase = key
    shared = tuple((sys.intern(name), sys.intern(value)) for name, value in labels)
    return shared, tuple(map(sys.intern, images)), sys.intern(phase)

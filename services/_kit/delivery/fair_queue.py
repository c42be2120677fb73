"""Queues of objects: first in, first out; or fair between kinds, of which any may be slow."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from schemas.keys import ObjectKey

ASSURED: Final = 2
"""Places that a kind gets whatever others take, and that are kept free for the next kind."""


class KeyQueue(Protocol):
    """Objects that wait, each once; `some` is set when one may have become due."""

    some: asyncio.Event

    def add(self, key: ObjectKey) -> None:
        """Put an object in line."""

    def take(self) -> ObjectKey | None:
        """The next object, which has a place from now on; None where none is due."""

    def leave(self, key: ObjectKey) -> None:
        """Give the place of an object back."""

    def __len__(self) -> int:
        """How many objects wait."""


class FifoQueue:
    """First come, first served; as many places as there are workers."""

    def __init__(self) -> None:
        self.some = asyncio.Event()
        self._keys: dict[ObjectKey, None] = {}

    def add(self, key: ObjectKey) -> None:
        """Put an object in line."""
        self._keys[key] = None
        self.some.set()

    def take(self) -> ObjectKey | None:
        """The next object, None where none waits."""
        for key in self._keys:
            del self._keys[key]
            return key
        return None

    def leave(self, key: ObjectKey) -> None:
        """Nothing to give back: a worker is a place."""

    def __len__(self) -> int:
        return len(self._keys)


class FairQueue:
    """Kinds take turns; one that does not end its own leaves places to others, as long as there are any."""

    def __init__(self, places: int) -> None:
        self.some = asyncio.Event()
        self._free = places
        self._waiting: dict[tuple[str, str], dict[ObjectKey, None]] = {}
        self._taken: dict[tuple[str, str], int] = {}

    def add(self, key: ObjectKey) -> None:
        """Put an object in line behind those of its kind."""
        self._waiting.setdefault((key.group, key.resource), {})[key] = None
        self.some.set()

    def take(self) -> ObjectKey | None:
        """The next object of the next kind that may take a place; None where there is none."""
        for kind, keys in self._waiting.items():
            taken = self._taken.get(kind, 0)
            if taken >= ASSURED and self._free <= ASSURED:
                continue
            key = next(iter(keys))
            del keys[key], self._waiting[kind]
            if keys:
                # To the end: the others are next.
                self._waiting[kind] = keys
            self._taken[kind] = taken + 1
            self._free -= 1
            return key
        return None

    def leave(self, key: ObjectKey) -> None:
        """Give the place of an object back."""
        kind = (key.group, key.resource)
        left = self._taken[kind] - 1
        if left:
            self._taken[kind] = left
        else:
            del self._taken[kind]
        self._free += 1
        if self._waiting:
            self.some.set()

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._waiting.values())

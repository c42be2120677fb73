"""Deadlines of keys: a heap with one live entry per key, the earliest first."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one deadline per key, in seconds of one clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._live: dict[K, float] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    def set(self, key: K, at: float | None) -> None:
        """Replace the deadline of a key; None takes it away."""
        if at is None:
            self._live.pop(key, None)
            return
        if self._live.get(key) == at:
            return
        self._live[key] = at
        heappush(self._heap, (at, next(self._numbers), key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._heap = [item for item in self._heap if self._live.get(item[2]) == item[0]]
            heapify(self._heap)

    def next(self) -> float | None:
        """The earliest deadline."""
        while self._heap and self._live.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[K]:
        """Keys whose deadline passed; they lose it."""
        keys: list[K] = []
        while True:
            at = self.next()
            if at is None or at > now:
                return keys
            key = heappop(self._heap)[2]
            del self._live[key]
            keys.append(key)

    def keys(self) -> list[K]:
        """Keys with a deadline; they keep it."""
        return list(self._live)

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._live.clear()

"""Dirty keys ordered by rank instead of by arrival."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

from services._kit.runtime.projection import Cause

K = TypeVar("K", bound=Hashable)


class PriorityKeys(dict[K, Cause], Generic[K]):
    """The causes of dirty keys; going through it yields the smallest rank first, and among equals the oldest key.

    The rank of a key is asked for when it becomes dirty; a later one counts only once the key was taken out.
    """

    def __init__(self, rank: Callable[[K], float]) -> None:
        super().__init__()
        self._rank = rank
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()
        self._entries: dict[K, int] = {}

    def __setitem__(self, key: K, cause: Cause) -> None:
        """Remember why a key is dirty, and its place among the others."""
        if key not in self:
            number = self._entries[key] = next(self._numbers)
            heappush(self._heap, (self._rank(key), number, key))
        super().__setitem__(key, cause)

    def __delitem__(self, key: K) -> None:
        """The key is not dirty any more."""
        super().__delitem__(key)
        self._drop(key)

    def pop(self, key: K, *default: Any) -> Any:
        """The cause of a key that is not dirty any more."""
        cause = super().pop(key, *default)
        self._drop(key)
        return cause

    def clear(self) -> None:
        """No key is dirty."""
        super().clear()
        self._heap.clear()
        self._entries.clear()

    def __iter__(self) -> Iterator[K]:
        """Keys by rank; a caller that stops early pays only for the keys it read."""
        seen: list[tuple[float, int, K]] = []
        heap, entries = self._heap, self._entries
        try:
            while heap:
                entry = heappop(heap)
                if entries.get(entry[2]) == entry[1]:
                    seen.append(entry)
                    yield entry[2]
        finally:
            for entry in seen:
                heappush(heap, entry)

    def _drop(self, key: K) -> None:
        self._entries.pop(key, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._entries):
            # Rebuilt in place: an iteration may be under way.
            self._heap[:] = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapify(self._heap)

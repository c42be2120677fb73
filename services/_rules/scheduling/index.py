"""Immutable index of all clusters with cached results, which are carried over when single clusters change."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from services._rules.scheduling.scheduling_views import ClusterView

Value = TypeVar("Value")

# Results times clusters that are kept: about 40 MB.
_MEMO_SIZE: Final = 400_000
_FEWEST_ENTRIES: Final = 64
# Beyond this many changed clusters it is cheaper to begin afresh than to carry over.
_MOST_CHANGES: Final = 64
_LONGEST_LOOK: Final = 1024
_LOG_SIZE: Final = 4096
_FEW: Final = 8
_NAME: Final = attrgetter("name")


class _Memory:
    """Results of all generations, each with the generation it is right for, and which cluster each one changed."""

    __slots__ = ("changed", "entries", "first", "last")

    def __init__(self) -> None:
        self.entries: dict[object, tuple[int, Any]] = {}
        self.changed: list[str] = []
        self.first = self.last = 0

    def keep(self, key: object, generation: int, value: object, clusters: int) -> None:
        """Store a result; when there are too many for so many clusters, the older half makes room."""
        if len(self.entries) >= max(_FEWEST_ENTRIES, _MEMO_SIZE // max(clusters, 1)):
            for old in list(self.entries)[: len(self.entries) // 2]:
                del self.entries[old]
        self.entries.pop(key, None)
        self.entries[key] = generation, value

    def advance(self, name: str) -> int:
        """Begin the generation in which the named cluster changed."""
        if len(self.changed) >= _LOG_SIZE:
            del self.changed[: _LOG_SIZE // 2]
            self.first += _LOG_SIZE // 2
        self.changed.append(name)
        self.last += 1
        return self.last

    def since(self, generation: int, until: int) -> list[str] | None:
        """Clusters that changed after one generation up to another, None where that is not known or too many."""
        if generation < self.first or until - generation > _LONGEST_LOOK:
            return None
        found = list(dict.fromkeys(self.changed[generation - self.first : until - self.first]))
        return found if len(found) <= _MOST_CHANGES else None


class ClusterIndex:
    """Clusters by name, in name order; a change makes a new index that shares the memory of the old one."""

    __slots__ = ("_generation", "_memory", "by_name", "clusters")

    def __init__(self, clusters: Iterable[ClusterView]) -> None:
        self.clusters = tuple(sorted(clusters, key=_NAME))
        self.by_name: Mapping[str, ClusterView] = {item.name: item for item in self.clusters}
        self._memory = _Memory()
        self._generation = 0

    def with_cluster(self, cluster: ClusterView) -> "ClusterIndex":
        """Index with one cluster added or replaced."""
        clusters = replace_named(self.clusters, cluster.name, cluster)
        return self._next(clusters, {**self.by_name, cluster.name: cluster}, cluster.name)

    def with_clusters(self, clusters: Iterable[ClusterView]) -> "ClusterIndex":
        """Index with several clusters added or replaced, at the price of one pass."""
        changed = {item.name: item for item in clusters}
        if len(changed) < _FEW:
            index = self
            for item in changed.values():
                index = index.with_cluster(item)
            return index
        by_name = {**self.by_name, **changed}
        found = tuple(sorted(by_name.values(), key=_NAME))
        return self._next(found, by_name, *changed)

    def without(self, name: str) -> "ClusterIndex":
        """Index without the named cluster."""
        if name not in self.by_name:
            return self
        by_name = {key: item for key, item in self.by_name.items() if key != name}
        return self._next(replace_named(self.clusters, name, None), by_name, name)

    def remember(
        self, key: object, make: Callable[[], Value], carry_over: Callable[[Value, list[str]], Value]
    ) -> Value:
        """The result kept under a key: as it is, carried over the clusters that changed since, or computed.

        A key must always be used with results of one type; a result must not be changed once it is kept.
        """
        memory = self._memory
        generation, value = memory.entries.get(key, (-1, None))
        if generation == self._generation:
            return cast("Value", value)
        changed = memory.since(generation, self._generation) if 0 <= generation < self._generation else None
        found = make() if changed is None else carry_over(cast("Value", value), changed)
        # A reader of an earlier generation must not replace the result of the present one.
        if generation < self._generation:
            memory.keep(key, self._generation, found, len(self.clusters))
        return found

    def _next(
        self, clusters: tuple[ClusterView, ...], by_name: dict[str, ClusterView], *changed: str
    ) -> "ClusterIndex":
        index = ClusterIndex.__new__(ClusterIndex)
        index.clusters = clusters
        index.by_name = by_name
        # Of two changes to one index only the first continues its memory.
        if self._generation == self._memory.last:
            index._memory = self._memory
            for name in changed:
                index._generation = self._memory.advance(name)
        else:
            index._memory = _Memory()
            index._generation = 0
        return index


def replace_named(clusters: tuple[ClusterView, ...], name: str, cluster: ClusterView | None) -> tuple[ClusterView, ...]:
    """Clusters in name order with the named one replaced, added or (None) taken out."""
    place = bisect_left(clusters, name, key=_NAME)
    there = place < len(clusters) and clusters[place].name == name
    added = () if cluster is None else (cluster,)
    return clusters[:place] + added + clusters[place + there :]


def find(clusters: tuple[ClusterView, ...], name: str) -> ClusterView | None:
    """The named one of clusters in name order."""
    place = bisect_left(clusters, name, key=_NAME)
    return clusters[place] if place < len(clusters) and clusters[place].name == name else None

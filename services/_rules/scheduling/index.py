"""All clusters, immutable and with memory: what was worked out for one generation of clusters is kept for it."""

from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from services._rules.scheduling.model import ClusterView

Key = TypeVar("Key")
Value = TypeVar("Value")

_MEMO_SIZE: Final = 1024


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A bounded cache: when full it starts afresh, which costs one recomputation per live key."""

    __slots__ = ()

    def keep(self, key: Key, value: Value) -> Value:
        """Store and return a value."""
        if len(self) >= _MEMO_SIZE:
            self.clear()
        self[key] = value
        return value


class ClusterIndex:
    """Clusters by name, in name order; every change makes a new index with an empty memory."""

    __slots__ = ("by_name", "clusters", "memo")

    def __init__(self, clusters: Iterable[ClusterView]) -> None:
        self.clusters = tuple(sorted(clusters, key=lambda item: item.name))
        self.by_name: Mapping[str, ClusterView] = {item.name: item for item in self.clusters}
        # Intermediate results of this generation, by whatever the stage that keeps them is keyed on.
        self.memo: Memo[object, object] = Memo()

    def with_cluster(self, cluster: ClusterView) -> "ClusterIndex":
        """Index with one cluster added or replaced."""
        return ClusterIndex({**self.by_name, cluster.name: cluster}.values())

    def without(self, name: str) -> "ClusterIndex":
        """Index without the named cluster."""
        return ClusterIndex(item for item in self.clusters if item.name != name)

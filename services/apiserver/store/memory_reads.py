"""Answers all reads of a store from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.apiserver.store.object_index import Cursor, Projection
from services.apiserver.store.store_port import Entry, Event, Key


class Reading:
    """The reading half of the store port; `history` is the number of events kept per resource."""

    def __init__(self, history: int) -> None:
        self._state = Projection(history)

    @property
    def revision(self) -> int:
        return self._state.revision

    def get(self, key: Key) -> Entry | None:
        return self._state.get(key)

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Entry]:
        return self._state.bucket(group, resource).entries(namespace)

    def list_at(self, group: str, resource: str, namespace: str, revision: int) -> Iterable[Entry]:
        return self._state.bucket(group, resource).entries_at(namespace, revision)

    def watch(self, group: str, resource: str, revision: int) -> Cursor:
        return self._state.watch(group, resource, revision)

    def floor(self, group: str, resource: str) -> int:
        return self._state.bucket(group, resource).floor

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call a function with every event from now on."""
        self._state.listeners.append(listener)

    def count(self, group: str, resource: str) -> int:
        """How many objects of a resource there are."""
        return self._state.bucket(group, resource).count

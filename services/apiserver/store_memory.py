"""A store that keeps everything in this process: for tests and for servers that may forget."""

import asyncio
from collections.abc import Callable, Iterable

from services.apiserver.projection import Cursor, Projection
from services.apiserver.store import Conflict, Entry, Event, Key, Manifest, encode_value


class MemoryStore:
    """The store port without a log behind it; `history` is the number of events kept per resource."""

    def __init__(self, history: int = 8192) -> None:
        self._state = Projection(history)

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to let go."""

    @property
    def revision(self) -> int:
        return self._state.revision

    @property
    def ready(self) -> bool:
        return True

    async def lost(self) -> str:
        """Never returns: nothing is stored anywhere else."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    def _check(self, key: Key, expected: int) -> int:
        current = self._state.get(key)
        actual = 0 if current is None else current.revision
        if actual != expected:
            raise Conflict(key, expected, actual)
        return self._state.revision + 1

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        entry = Entry(key, encode_value(obj), self._check(key, expected), obj)
        self._state.apply_put(entry)
        return entry

    async def delete(self, key: Key, obj: Manifest, expected: int) -> Entry:
        entry = Entry(key, encode_value(obj), self._check(key, expected), obj)
        self._state.apply_delete(entry)
        return entry

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

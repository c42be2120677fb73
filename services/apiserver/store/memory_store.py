"""A store that keeps everything in this process: for tests and for servers that may forget."""

import asyncio

from schemas.manifest import Manifest
from services.apiserver.store.memory_reads import Reading
from services.apiserver.store.store_port import Conflict, Entry, Key, encode_value


class MemoryStore(Reading):
    """The store port without a log behind it; `history` is the number of events kept per resource."""

    def __init__(self, history: int = 8192) -> None:
        super().__init__(history)

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to let go."""

    @property
    def ready(self) -> bool:
        return True

    async def lost(self) -> str:
        """Never returns: nothing is stored anywhere else."""
        await asyncio.Event().wait()
        raise AssertionError("unreachable: the event is never set")

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

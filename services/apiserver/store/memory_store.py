"""A store that keeps everything in this process: for tests and for servers that may forget."""

import asyncio
from collections.abc import Sequence

from schemas.manifest import Manifest
from services.apiserver.store.object_index import Projection
from services.apiserver.store.store_port import Conflict, Entry, Key, encode_value


class MemoryStore(Projection):
    """The store port without a log behind it; `history` is the number of events kept per resource."""

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
        current = self.get(key)
        actual = 0 if current is None else current.revision
        if actual != expected:
            raise Conflict(key, expected, actual)
        return self.revision + 1

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        entry = Entry(key, encode_value(obj), self._check(key, expected), obj)
        self.apply_put(entry)
        return entry

    async def put_all(self, puts: Sequence[tuple[Key, Manifest, int]]) -> list[Entry]:
        for key, _, expected in puts:
            self._check(key, expected)
        return [await self.put(key, obj, expected) for key, obj, expected in puts]

    async def delete(self, key: Key, obj: Manifest, expected: int) -> Entry:
        entry = Entry(key, encode_value(obj), self._check(key, expected), obj)
        self.apply_delete(entry)
        return entry

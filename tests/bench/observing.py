"""Watches one kind in one cluster and notes when each object first met a condition; nothing is polled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from services._kit.kube.api import WatchEvent
from services._kit.kube.client import KubeClient

Wanted = Callable[["Seen"], bool]


class _Metadata(Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class Status(Struct, rename="camel"):
    """The summed counters of a workload."""

    replicas: int = 0
    ready_replicas: int = 0
    unavailable_replicas: int = 0


class Seen(Struct):
    """What a measure reads of an object."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: Status = msgspec.field(default_factory=Status)


class _List(Struct):
    metadata: _Metadata
    items: list[Raw]


_seen: Final = msgspec.json.Decoder(Seen)
_list: Final = msgspec.json.Decoder(_List)


class Observer:
    """First times (of `time.perf_counter`) by object and by named condition; `gone` holds the names deleted last."""

    def __init__(self, client: KubeClient, path: str, conditions: dict[str, Wanted]) -> None:
        self.first: dict[str, dict[str, float]] = {name: {} for name in conditions}
        self.present: set[str] = set()
        self._client = client
        self._path = path
        self._conditions = conditions
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def start(self) -> None:
        """Watch from the present on."""
        self._task = asyncio.create_task(self._run(await self._look()))

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait until a condition on what was seen holds; raises TimeoutError that says what was missing."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        assert self._task is not None
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({future, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {seconds:g} s") from None
        if self._task.done():
            self._task.result()
            raise ConnectionError(f"the watch of {self._path} ended")

    async def all(self, condition: str, names: Iterable[str], seconds: float = 120.0) -> float:
        """The moment at which the last of these objects met a condition."""
        wanted = set(names)
        times = self.first[condition]
        await self.until(lambda: wanted <= times.keys(), f"{condition} of {len(wanted)} objects", seconds)
        return max(times[name] for name in wanted)

    async def none_left(self, seconds: float = 120.0) -> None:
        """Wait until no object is left."""
        await self.until(lambda: not self.present, f"an empty {self._path}", seconds)

    async def _look(self) -> str:
        """Take in what is there now; its version."""
        listed = _list.decode(await self._client.request("GET", self._path))
        found = [_seen.decode(raw) for raw in listed.items]
        for name in self.present.difference(seen.metadata.name for seen in found):
            self._forget(name)
        for seen in found:
            self._take(seen, time.perf_counter())
        return listed.metadata.resource_version

    async def _run(self, version: str) -> None:
        while True:
            # Servers end every watch after some minutes.
            async for events in self._client.watch(self._path, version):
                if any(event.type == "ERROR" for event in events):
                    # What happened since is forgotten there.
                    version = ""
                    break
                version = self._read(events)
                self._tell()
            if not version:
                version = await self._look()
                self._tell()

    def _read(self, events: Iterable[WatchEvent]) -> str:
        """Take in changes; the version of the last one."""
        now, version = time.perf_counter(), ""
        for event in events:
            seen = _seen.decode(event.object)
            version = seen.metadata.resource_version
            if event.type == "DELETED":
                self._forget(seen.metadata.name)
            elif event.type != "BOOKMARK":
                self._take(seen, now)
        return version

    def _take(self, seen: Seen, now: float) -> None:
        name = seen.metadata.name
        self.present.add(name)
        for condition, holds in self._conditions.items():
            if name not in self.first[condition] and holds(seen):
                self.first[condition][name] = now

    def _forget(self, name: str) -> None:
        self.present.discard(name)
        for times in self.first.values():
            times.pop(name, None)

    def _tell(self) -> None:
        left = []
        for condition, future in self._waiting:
            if future.done():
                continue
            if condition():
                future.set_result(None)
            else:
                left.append((condition, future))
        self._waiting = left

"""Writes Kubernetes Events: the first of a kind soon, repetitions counted and written now and then.

What follows upon one change is told within a moment, often several times over: gathered, it is one write for each Event
instead of two, and none of them while the change itself is on its way to the members.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

from services._kit.base.clock import Clock
from services._kit.concurrency.keyed_work import Background
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.kubernetes.event_objects import Note, event_name, event_of

_REMEMBERED = 20_000


class _Told(Struct):
    first: str
    count: int = 1
    flushing: bool = False


class Telling:
    """Events on their way to the control plane; low priority, and never more than a few at once."""

    def __init__(
        self, client: KubeClient, clock: Clock, *, gather_seconds: float = 0.5, repeat_seconds: float = 30.0
    ) -> None:
        self._client = client
        self._clock = clock
        self._gather = gather_seconds
        self._repeat = repeat_seconds
        self._gathered: dict[tuple[str, str], tuple[Note, _Told]] = {}
        self._gathering: asyncio.TimerHandle | None = None
        self._told: dict[tuple[str, str], _Told] = {}
        self._writes = self._background()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    @staticmethod
    def _background() -> Background[tuple[str, str]]:
        return Background(concurrency=4, retry=(Unreachable,))

    def tell(self, note: Note) -> None:
        """Write an Event, or count it where the same was told already."""
        place = (note.key.namespace, event_name(note))
        told = self._told.get(place)
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if told is None:
            told = self._told[place] = _Told(now)
            while len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
            self._gathered[place] = note, told
            if self._gathering is None:
                self._gathering = asyncio.get_running_loop().call_later(self._gather, self._write_gathered)
            return
        told.count += 1
        if not told.flushing and place not in self._gathered:
            told.flushing = True
            loop = asyncio.get_running_loop()
            self._timers[place] = loop.call_later(self._repeat, self._flush, place, note, told)

    def _write_gathered(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        gathered, self._gathered = self._gathered, {}
        for place, (note, told) in gathered.items():
            self._writes.submit(place, partial(self._create, note, told))

    async def drained(self) -> None:
        """Write what was gathered now, and return once nothing is on its way."""
        self._write_gathered()
        await self._writes.drained()

    async def drop(self) -> None:
        """Forget what is on its way: another instance tells now, and what we held back is old by our next turn."""
        writes, self._writes = self._writes, self._background()
        for place in self._gathered:
            self._told.pop(place, None)
        self._gathered = {}
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()
        for told in self._told.values():
            told.flushing = False
        await writes.close()

    async def close(self) -> None:
        """Stop; what was not written is lost, as Events may be."""
        await self.drop()

    def _flush(self, place: tuple[str, str], note: Note, told: _Told) -> None:
        told.flushing = False
        self._timers.pop(place, None)
        self._writes.submit(place, partial(self._count, note, told))

    async def _create(self, note: Note, told: _Told) -> None:
        event = event_of(note, first=told.first, last=told.first, count=told.count)
        try:
            await self._client.request("POST", _collection(note), body=event)
        except ApiError as error:
            if error.status == 409:
                await self._count(note, told)
            elif error.status not in (403, 404):
                raise

    async def _count(self, note: Note, told: _Told) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"count": told.count, "lastTimestamp": now}
        try:
            await self._client.patch(f"{_collection(note)}/{event_name(note)}", body)
        except ApiError as error:
            if error.status not in (403, 404):
                raise


def _collection(note: Note) -> str:
    return resource_path("", "v1", "events", note.key.namespace or "default")

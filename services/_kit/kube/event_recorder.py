"""Writes Kubernetes Events: the first of a kind soon, and the count of repetitions at intervals.

Events about one change follow within a moment, often repeated: gathered, each Event is one write instead of two, and
none of them is written while the change itself is on its way to the members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey
from services._kit.concurrency.keyed_work import Background, DelayedKeys
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.kubernetes.event_objects import Note, event_name, event_of

_REMEMBERED: Final = 20_000

Place = tuple[str, str]
"""Namespace of an object and name of an Event about it."""


class _Record(Struct):
    first: str
    count: int = 1


class _Busy(Exception):
    """The control plane is too busy for an Event."""


class EventRecorder:
    """Events on their way to the control plane; low priority, and never more than a few at once."""

    def __init__(
        self,
        client: KubeClient,
        now: Callable[[], float],
        *,
        gather_seconds: float = 0.5,
        repeat_seconds: float = 30.0,
    ) -> None:
        self._client = client
        self._now = now
        self._gather = gather_seconds
        self._repeat = repeat_seconds
        self._gathered: dict[Place, tuple[Note, _Record]] = {}
        self._gathering: asyncio.TimerHandle | None = None
        self._records: dict[Place, _Record] = {}
        self._latest: dict[ObjectKey, Place] = {}
        self._writes = self._background()
        self._repeated: dict[Place, tuple[Note, _Record]] = {}
        self._waiting: DelayedKeys[Place] = DelayedKeys(self._flush)

    @staticmethod
    def _background() -> Background[Place]:
        return Background(concurrency=4, retry=(Unreachable, _Busy))

    def tell(self, note: Note) -> None:
        """Write an Event, or count a repetition of it."""
        place = (note.key.namespace, event_name(note))
        record = self._records.get(place)
        if record is None:
            record = self._records[place] = _Record(self._time())
            while len(self._records) > _REMEMBERED:
                del self._records[next(iter(self._records))]
            self._gathered[place] = note, record
            if self._gathering is None:
                self._gathering = asyncio.get_running_loop().call_later(self._gather, self._write_gathered)
            return
        record.count += 1
        if place not in self._gathered:
            self._repeated[place] = note, record
            self._waiting.after(place, self._repeat)

    def tell_once(self, note: Note) -> None:
        """Write an Event unless it equals the latest one about the object."""
        place = (note.key.namespace, event_name(note))
        if self._latest.get(note.key) == place:
            return
        self.settled(note.key)
        self._latest[note.key] = place
        while len(self._latest) > _REMEMBERED:
            self.settled(next(iter(self._latest)))
        self.tell(note)

    def settled(self, key: ObjectKey) -> None:
        """An object has no problem: the next Event about it is written, even if it equals the last one."""
        place = self._latest.pop(key, None)
        if place is not None:
            self._records.pop(place, None)

    def _time(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _write_gathered(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        gathered, self._gathered = self._gathered, {}
        for place, (note, record) in gathered.items():
            self._writes.submit(place, partial(self._create, note, record))

    async def drained(self) -> None:
        """Write what was gathered now, and return once nothing is on its way."""
        self._write_gathered()
        await self._writes.drained()

    async def drop(self) -> None:
        """Drop pending Events: another instance leads now, and these are outdated when this one leads again."""
        writes, self._writes = self._writes, self._background()
        for place in self._gathered:
            self._records.pop(place, None)
        self._gathered = {}
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._waiting.clear()
        self._repeated.clear()
        for key in list(self._latest):
            self.settled(key)
        await writes.close()

    def _flush(self, place: Place) -> None:
        self._writes.submit(place, partial(self._count, *self._repeated.pop(place)))

    async def _create(self, note: Note, record: _Record) -> None:
        event = event_of(note, first=record.first, last=record.first, count=record.count)
        try:
            await self._client.request("POST", _collection(note), body=event)
        except ApiError as error:
            if error.status == 409:
                await self._count(note, record)
            else:
                _refused(error)

    async def _count(self, note: Note, record: _Record) -> None:
        body = {"count": record.count, "lastTimestamp": self._time()}
        try:
            await self._client.patch(f"{_collection(note)}/{event_name(note)}", body)
        except ApiError as error:
            _refused(error)


def _refused(error: ApiError) -> None:
    """Raise a refusal that is worth another try, or a line in the log; an Event that may not be written is left."""
    if error.status in PASSING:
        raise _Busy(str(error)) from error
    if error.status not in (403, 404):
        raise error


def _collection(note: Note) -> str:
    return resource_path("", "v1", "events", note.key.namespace or "default")

"""Writes Kubernetes Events: the first of a kind soon, and the count of repetitions at intervals.

Events about one change follow within a moment, often repeated: gathered, each Event is one write instead of two, and
none of them is written while the change itself is on its way to the members. They are written at a bounded rate, those
that need attention first; what there is too much of is dropped, details first (docs/status.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct

from schemas.keys import ObjectKey
from services._kit.base.late_logger import LateLogger
from services._kit.base.pacing import Bucket
from services._kit.concurrency.keyed_work import Background, DelayedKeys
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.kubernetes.event_objects import COMBINED, Note, combined, event_name, event_of

_REMEMBERED: Final = 20_000
_AT_ONCE: Final = 4
"""Requests under way at once."""
BUSY: Final = 100
"""Events of one second from which on they are written at the slow rate: delivery needs the processors then."""
CALM_FACTOR: Final = 4.0
"""How much faster they are written otherwise."""
_TICK: Final = 0.02
SIMILAR: Final = 10
"""Events about one object that differ in their messages only, before they are combined into one."""
SIMILAR_SECONDS: Final = 600.0

log = LateLogger("kube.events")

Place = tuple[str, str]
"""Namespace of an object and name of an Event about it."""


class EventPace(Struct, frozen=True):
    """How many Events are written: per second in a burst, at once after a pause, and how many wait at most."""

    per_second: float = 25.0
    at_once: float = 50.0
    waiting: int = 10_000


class _Record(Struct):
    first: str
    count: int = 1
    written: bool = False
    message: str = ""
    """What is shown last, where the Event stands for several messages."""


class _Similar(Struct):
    since: float
    messages: set[str]


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
        pace: EventPace = EventPace(),  # noqa: B008 - immutable
    ) -> None:
        self._client = client
        self._now = now
        self._gather = gather_seconds
        self._repeat = repeat_seconds
        self._pace = pace
        self._bucket = Bucket(pace.per_second, pace.at_once)
        self._queues: tuple[dict[Place, Note], ...] = ({}, {}, {})
        """What waits to be written, by rank."""
        self._timer: asyncio.TimerHandle | None = None
        self._second = (0.0, 0, 0)
        """The present second: its begin, Events told in it, and in the one before."""
        self._records: dict[Place, _Record] = {}
        self._similar: dict[tuple[str, str, str], _Similar] = {}
        self._latest: dict[ObjectKey, Place] = {}
        self._writes = self._background()
        self._repeated: dict[Place, Note] = {}
        self._delayed: DelayedKeys[Place] = DelayedKeys(self._repeat_due)
        self.dropped = 0
        """Events that were not written, because too many waited."""

    @staticmethod
    def _background() -> Background[Place]:
        return Background(concurrency=_AT_ONCE, retry=(Unreachable, _Busy))

    @property
    def waiting(self) -> int:
        """Events that wait to be written."""
        return sum(len(queue) for queue in self._queues)

    def tell(self, note: Note) -> None:
        """Write an Event, or count a repetition of it."""
        now = asyncio.get_running_loop().time()
        self._tick(now, 1)
        note, message = self._combine(note, now)
        place = (note.key.namespace, event_name(note))
        record = self._records.get(place)
        if record is None:
            record = self._records[place] = _Record(self._time(), message=message)
            while len(self._records) > _REMEMBERED:
                del self._records[next(iter(self._records))]
            self._enqueue(place, note)
            return
        record.count += 1
        record.message = message
        if place not in self._queues[note.rank]:
            self._repeated[place] = note
            self._delayed.after(place, self._repeat)

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

    def _tick(self, now: float, told: int = 0) -> bool:
        """Count what is told; whether that is little."""
        begin, count, before = self._second
        if now - begin >= 1.0:
            begin, count, before = now, 0, count if now - begin < 2.0 else 0
        self._second = begin, count + told, before
        return max(count + told, before) < BUSY

    def _combine(self, note: Note, now: float) -> tuple[Note, str]:
        """The Event as it is written, and its message where it stands for several with other ones."""
        about = (note.uid, note.reason, note.component)
        known = self._similar.get(about)
        if known is None or now - known.since > SIMILAR_SECONDS:
            known = self._similar[about] = _Similar(now, set())
            while len(self._similar) > _REMEMBERED:
                del self._similar[next(iter(self._similar))]
        if note.message in known.messages:
            return note, ""
        if len(known.messages) < SIMILAR:
            known.messages.add(note.message)
            return note, ""
        return combined(note), f"{COMBINED}{note.message}"[:1024]

    def _time(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _enqueue(self, place: Place, note: Note) -> None:
        self._queues[note.rank][place] = note
        if self.waiting > self._pace.waiting:
            self._drop_one()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._gather, self._write_some)

    def _drop_one(self) -> None:
        queue = next(queue for queue in reversed(self._queues) if queue)
        place = next(iter(queue))
        del queue[place]
        self._forget_unwritten(place)
        if self.dropped % 1000 == 0:
            log.warning("kubernetes_events_dropped", dropped=self.dropped + 1, waiting=self._pace.waiting)
        self.dropped += 1

    def _forget_unwritten(self, place: Place) -> None:
        record = self._records.get(place)
        if record is not None and not record.written:
            del self._records[place]

    def _write_some(self) -> None:
        """Hand over what the pace allows, and come back for the rest."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        cost = 1.0 / CALM_FACTOR if self._tick(now) else 1.0
        pause = self._bucket.take(0, now)
        while not pause and self._writes.pending < 2 * _AT_ONCE and self._write_next():
            pause = self._bucket.take(cost, now)
        if self.waiting:
            # A slow control plane is the other limit.
            self._timer = loop.call_later(max(pause, _TICK), self._write_some)

    def _write_next(self) -> bool:
        queue = next((queue for queue in self._queues if queue), None)
        if queue is None:
            return False
        place = next(iter(queue))
        # What was told is written, also where the problem is settled by now.
        note, record = queue.pop(place), self._records.get(place) or _Record(self._time())
        self._writes.submit(place, partial(self._write, note, record))
        return True

    async def drained(self) -> None:
        """Write what was gathered now, at any pace, and return once nothing is on its way."""
        self._stop_timer()
        while self._write_next():
            pass
        await self._writes.drained()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def drop(self) -> None:
        """Drop pending Events: another instance leads now, and these are outdated when this one leads again."""
        writes, self._writes = self._writes, self._background()
        self._stop_timer()
        for queue in self._queues:
            queue.clear()
        for place in list(self._records):
            self._forget_unwritten(place)
        self._delayed.clear()
        self._repeated.clear()
        self._similar.clear()
        for key in list(self._latest):
            self.settled(key)
        await writes.close()

    def _repeat_due(self, place: Place) -> None:
        self._enqueue(place, self._repeated.pop(place))

    async def _write(self, note: Note, record: _Record) -> None:
        if record.written:
            await self._count(note, record)
            return
        event = event_of(note, first=record.first, last=record.first, count=record.count, message=record.message)
        try:
            await self._client.request("POST", _collection(note), body=event)
        except ApiError as error:
            if error.status != 409:
                _refused(error)
                return
            await self._adopt(note, record)
        record.written = True

    async def _adopt(self, note: Note, record: _Record) -> None:
        """Go on counting an Event that was written before this process began or forgot it."""
        try:
            known = await self._client.get(f"{_collection(note)}/{event_name(note)}")
        except ApiError as error:
            _refused(error)
            return
        before = known.get("count")
        record.count += before if isinstance(before, int) else 0
        await self._count(note, record)

    async def _count(self, note: Note, record: _Record) -> None:
        body: dict[str, Any] = {"count": record.count, "lastTimestamp": self._time()}
        if record.message:
            body["message"] = record.message
        try:
            await self._client.patch(f"{_collection(note)}/{event_name(note)}", body)
        except ApiError as error:
            if error.status == 404:
                # It expired: the next one is a new object.
                self._records.pop((note.key.namespace, event_name(note)), None)
            _refused(error)


def _refused(error: ApiError) -> None:
    """Raise a refusal that is worth another try, or a line in the log; an Event that may not be written is left."""
    if error.status in PASSING:
        raise _Busy(str(error)) from error
    if error.status not in (403, 404):
        raise error


def _collection(note: Note) -> str:
    return resource_path("", "v1", "events", note.key.namespace or "default")

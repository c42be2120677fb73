"""The in-memory state of a store: present objects sorted per namespace, recent history, and wake-ups of its readers."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import Final

from services.apiserver.store.store_port import Compacted, Entry, Event, Key

EVENTS_AT_ONCE: Final = 512
"""Events that one reader takes before others get their turn."""
HISTORY_BYTES: Final = 16 << 20
"""Bytes of objects in the history of one resource; what is larger shortens it."""
STARTING_BYTES: Final = 1 << 20
"""The same after a start: no watch is far behind then, and clients that reconnect have seen nearly every event."""


class _Names:
    """The objects of one namespace by name, with their names in byte order."""

    __slots__ = ("by_name", "ordered")

    def __init__(self) -> None:
        self.by_name: dict[str, Entry] = {}
        self.ordered: list[str] = []

    def from_name(self, start: str) -> Iterator[Entry]:
        """Entries in order, from a name on."""
        ordered = islice(self.ordered, bisect_left(self.ordered, start), None) if start else self.ordered
        return map(self.by_name.__getitem__, ordered)

    def count_from(self, start: str) -> int:
        """How many entries there are from a name on."""
        return len(self.ordered) - (bisect_left(self.ordered, start) if start else 0)


class Bucket:
    """Present state and recent history of one resource."""

    def __init__(self, history: int) -> None:
        self.namespaces: dict[str, _Names] = {}
        self.count = 0
        self.events: list[Event] = []
        self.first = 0  # absolute number of events[0]
        self.floor = 0
        self.capacity = history
        self._bytes = 0
        self.listeners: tuple[Callable[[Event], None], ...] = ()
        self.waiters: set[asyncio.Future[None]] = set()

    def get(self, namespace: str, name: str) -> Entry | None:
        names = self.namespaces.get(namespace)
        return None if names is None else names.by_name.get(name)

    def set(self, entry: Entry) -> Entry | None:
        """Make an entry the present state; returns the previous one."""
        names = self.namespaces.get(entry.key.namespace)
        if names is None:
            names = self.namespaces[entry.key.namespace] = _Names()
        name = entry.key.name
        prev = names.by_name.get(name)
        if prev is None:
            insort(names.ordered, name)
            self.count += 1
        names.by_name[name] = entry
        return prev

    def remove(self, key: Key) -> Entry | None:
        """Take an entry out of the present state; returns it."""
        names = self.namespaces.get(key.namespace)
        prev = None if names is None else names.by_name.pop(key.name, None)
        if names is None or prev is None:
            return None
        del names.ordered[bisect_left(names.ordered, key.name)]
        self.count -= 1
        if not names.by_name:
            del self.namespaces[key.namespace]
        return prev

    def record(self, event: Event) -> None:
        """Append to history, forgetting the oldest tenth when it is full, and wake every reader."""
        self.events.append(event)
        self._bytes += len(event.entry.raw)
        if len(self.events) > self.capacity or self._bytes > HISTORY_BYTES:
            self._drop(max(1, len(self.events) // 10))
        if self.waiters:
            waiters, self.waiters = self.waiters, set()
            for waiter in waiters:
                _finish(waiter)

    def _drop(self, many: int) -> None:
        """Forget the oldest events; a watch from before them has to list again."""
        if not many:
            return
        self._bytes -= sum(len(event.entry.raw) for event in self.events[:many])
        self.floor = max(self.floor, self.events[many - 1].revision)
        del self.events[:many]
        self.first += many

    def forget_before(self, revision: int) -> None:
        """Raise the floor."""
        self._drop(bisect_left(self.events, revision + 1, key=lambda e: e.revision))
        self.floor = max(self.floor, revision)

    def shorten(self, limit: int) -> None:
        """Forget the oldest history beyond that many bytes of objects."""
        left, many = self._bytes, 0
        while left > limit:
            left -= len(self.events[many].entry.raw)
            many += 1
        self._drop(many)

    def entries(self, namespace: str, start: str = "") -> Iterator[Entry]:
        """Present entries by the bytes of namespace/name, from a place on (see `place_of`)."""
        if namespace:
            names = self.namespaces.get(namespace)
            return iter(()) if names is None else names.from_name(start)
        return chain.from_iterable(self._by_namespace(start))

    def _by_namespace(self, start: str) -> Iterator[Iterator[Entry]]:
        first, _, rest = start.partition("/")
        for place in sorted(self.namespaces, key=_before_names):
            if place == first or not place:
                yield self.namespaces[place].from_name(rest if place else start)
            elif _before_names(place) >= start:
                yield self.namespaces[place].from_name("")

    def count_from(self, namespace: str, start: str = "") -> int:
        """How many present entries there are from a place on."""
        if namespace:
            names = self.namespaces.get(namespace)
            return 0 if names is None else names.count_from(start)
        if not start:
            return self.count
        first, _, rest = start.partition("/")
        found = 0
        for place, names in self.namespaces.items():
            if place == first or not place:
                found += names.count_from(rest if place else start)
            elif _before_names(place) >= start:
                found += len(names.ordered)
        return found

    def entries_at(self, namespace: str, revision: int, start: str = "") -> Iterator[Entry]:
        """Entries as of a revision, found by undoing newer history."""
        undo = self._undone(namespace, revision, start)
        if not undo:
            return self.entries(namespace, start)
        kept = (e for e in self.entries(namespace, start) if (e.key.namespace, e.key.name) not in undo)
        back = sorted((e for e in undo.values() if e is not None), key=_order)
        return merge(kept, back, key=_order)

    def count_at(self, namespace: str, revision: int, start: str = "") -> int:
        """How many entries there were as of a revision, from a place on."""
        undo = self._undone(namespace, revision, start)
        found = self.count_from(namespace, start)
        for (place, name), entry in undo.items():
            found += (entry is not None) - (self.get(place, name) is not None)
        return found

    def _undone(self, namespace: str, revision: int, start: str) -> dict[tuple[str, str], Entry | None]:
        """What was there as of a revision in the places that changed since; raises Compacted."""
        if revision < self.floor:
            raise Compacted(revision, self.floor)
        undo: dict[tuple[str, str], Entry | None] = {}
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            key = event.entry.key
            if (not namespace or key.namespace == namespace) and place_of(key, namespace) >= start:
                undo[key.namespace, key.name] = event.prev
        return undo


def _before_names(namespace: str) -> str:
    """What all places in a namespace begin with."""
    return f"{namespace}/" if namespace else ""


def _order(entry: Entry) -> tuple[str, str]:
    return _before_names(entry.key.namespace), entry.key.name


def place_of(key: Key, namespace: str) -> str:
    """Where an object is in a list of one namespace (by its name) or of all (by namespace/name); lists go by this."""
    return key.name if namespace or not key.namespace else f"{key.namespace}/{key.name}"


class Projection:
    """The reading half of the store port: all resources of a store, with `history` events per resource."""

    def __init__(self, history: int = 8192) -> None:
        self.buckets: dict[tuple[str, str], Bucket] = {}
        self.revision = 0
        self._listeners: list[tuple[Callable[[Event], None], tuple[tuple[str, str], ...]]] = []
        self._history = history

    def bucket(self, group: str, resource: str) -> Bucket:
        found = self.buckets.get((group, resource))
        if found is None:
            found = self.buckets[group, resource] = Bucket(self._history)
            found.listeners = self._listeners_of((group, resource))
        return found

    def _listeners_of(self, resource: tuple[str, str]) -> tuple[Callable[[Event], None], ...]:
        return tuple(listener for listener, resources in self._listeners if not resources or resource in resources)

    def apply_put(self, entry: Entry) -> None:
        """A write became durable."""
        bucket = self.bucket(entry.key.group, entry.key.resource)
        self.revision = entry.revision
        event = Event(entry, bucket.set(entry), deleted=False)
        bucket.record(event)
        for listener in bucket.listeners:
            listener(event)

    def apply_delete(self, entry: Entry) -> None:
        """A deletion became durable; `entry` is the last state under the deletion's revision."""
        bucket = self.bucket(entry.key.group, entry.key.resource)
        self.revision = entry.revision
        event = Event(entry, bucket.remove(entry.key), deleted=True)
        bucket.record(event)
        for listener in bucket.listeners:
            listener(event)

    def get(self, key: Key) -> Entry | None:
        bucket = self.buckets.get((key.group, key.resource))
        return None if bucket is None else bucket.get(key.namespace, key.name)

    def list(self, group: str, resource: str, namespace: str = "", start: str = "") -> Iterable[Entry]:
        return self.bucket(group, resource).entries(namespace, start)

    def list_at(self, group: str, resource: str, namespace: str, revision: int, start: str = "") -> Iterable[Entry]:
        return self.bucket(group, resource).entries_at(namespace, revision, start)

    def watch(self, group: str, resource: str, revision: int) -> "Cursor":
        bucket = self.bucket(group, resource)
        if revision < bucket.floor:
            raise Compacted(revision, bucket.floor)
        return Cursor(self, bucket, revision)

    def floor(self, group: str, resource: str) -> int:
        return self.bucket(group, resource).floor

    def count(self, group: str, resource: str, namespace: str = "", revision: int = 0, start: str = "") -> int:
        bucket = self.buckets.get((group, resource))
        if bucket is None:
            return 0
        return bucket.count_at(namespace, revision, start) if revision else bucket.count_from(namespace, start)

    def listen(self, listener: Callable[[Event], None], *resources: tuple[str, str]) -> None:
        """Call a function with every event from now on, or with those of some resources."""
        self._listeners.append((listener, resources))
        for resource, bucket in self.buckets.items():
            bucket.listeners = self._listeners_of(resource)


class Cursor:
    """A reader's place in the history of one resource; holds no queue, so a slow reader costs nothing."""

    __slots__ = ("_bucket", "_next", "_projection", "_revision", "_skip_to")

    def __init__(self, projection: Projection, bucket: Bucket, revision: int) -> None:
        self._projection = projection
        self._bucket = bucket
        self._revision = revision
        self._skip_to = revision
        self._next = bucket.first + bisect_left(bucket.events, revision + 1, key=lambda e: e.revision)

    @property
    def revision(self) -> int:
        return self._revision

    async def next(self, timeout: float | None) -> list[Event]:
        """See the store port."""
        bucket = self._bucket
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            if self._next < bucket.first:
                raise Compacted(self._revision, bucket.floor)
            first = self._next - bucket.first
            found = bucket.events[first : first + EVENTS_AT_ONCE]
            self._next += len(found)
            if found and found[0].revision <= self._skip_to:
                found = [e for e in found if e.revision > self._skip_to]
            if found:
                self._revision = max(self._revision, found[-1].revision)
                return found
            self._revision = max(self._revision, self._projection.revision)
            remaining = None if deadline is None else deadline - loop.time()
            if remaining is not None and remaining <= 0:
                return []
            await self._news(loop, remaining)

    async def _news(self, loop: asyncio.AbstractEventLoop, seconds: float | None) -> None:
        """Wait until something is recorded, or that long."""
        waiter = loop.create_future()
        self._bucket.waiters.add(waiter)
        timer = None if seconds is None else loop.call_later(seconds, _finish, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._bucket.waiters.discard(waiter)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

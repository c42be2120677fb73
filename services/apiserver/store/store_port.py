"""The store port: what the API server needs from a place that keeps objects, revisions and history.

A revision is a position in one total order of writes (with JetStream: the stream sequence). Objects handed to the
store belong to it from then on; everything it returns is shared and must not be changed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from schemas.manifest import Manifest

CANNOT_START: Final = "cannot start"
"""The log event of a server whose store cannot be loaded; `up` shows its reason."""

MOST_SET_OBJECTS: Final = 500
"""Objects that can be written as one: what one atomic batch of the log takes."""
MOST_SET_BYTES: Final = 4 << 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SLOT = b'"resourceVersion":""'
_KEPT_BYTES: Final = 2 << 20


class Key(NamedTuple):
    """Where an object lives: API group, plural resource name, namespace ("" for cluster scope) and name."""

    group: str
    resource: str
    namespace: str
    name: str


class StoreError(Exception):
    """A write that the store refused."""


class Conflict(StoreError):
    """The object is not at the revision the writer expected (`actual` is its revision, 0 when it is absent)."""

    def __init__(self, key: Key, expected: int, actual: int) -> None:
        super().__init__(f"{key.resource} {key.namespace}/{key.name} is at revision {actual}, not {expected}")
        self.key, self.expected, self.actual = key, expected, actual


class Compacted(StoreError):
    """History before `floor` is gone; read again from the present."""

    def __init__(self, requested: int, floor: int) -> None:
        super().__init__(f"revision {requested} is older than the oldest kept revision {floor}")
        self.requested, self.floor = requested, floor


class StoreUnavailable(StoreError):
    """The log did not confirm a write in time; it may or may not have happened."""


class StoreReplaced(StoreUnavailable):
    """What is held is not what is stored any more: only a new start helps."""


class StoreTooLarge(StoreError):
    """The object is larger than the log takes in one message."""


def encode_value(obj: Manifest) -> bytes:
    """Bytes of an object with an empty place for its revision right after kind and apiVersion.

    The place is found again by one search from the start, which is why the first keys have a fixed order.
    """
    meta = {"resourceVersion": "", **{k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
    ordered = {"kind": obj.get("kind"), "apiVersion": obj.get("apiVersion"), "metadata": meta}
    ordered.update({key: value for key, value in obj.items() if key not in ordered})
    return _encode(ordered)


class _Spare(Protocol):
    """Something that can be made again from what stays."""

    def drop(self) -> None:
        """Let go of it."""


class Kept:
    """What was made lately from the bytes of objects and may be asked for again soon; the oldest is dropped first.

    A decoded object takes ten times the memory of its bytes, and few are read twice. The bound is in bytes of the
    objects that it was made from; the newest always stays.
    """

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._items: deque[tuple[_Spare, int]] = deque()

    def add(self, item: _Spare, size: int) -> None:
        """Keep something that is not kept yet."""
        items = self._items
        items.append((item, size))
        self._size += size
        while self._size > self._limit and len(items) > 1:
            oldest, size = items.popleft()
            self._size -= size
            oldest.drop()


_decoded: Final = Kept()
_framed: Final = Kept()


class Entry:
    """One state of one object; `raw` is its JSON with the revision filled in, `obj` the same decoded."""

    __slots__ = ("_obj", "key", "raw", "revision")

    def __init__(self, key: Key, value: bytes, revision: int, obj: Manifest | None = None) -> None:
        self.key = key
        self.revision = revision
        self.raw: Final = value.replace(_SLOT, b'"resourceVersion":"%d"' % revision, 1)
        self._obj: Manifest | None = None
        if obj is not None:
            self._obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
            _decoded.add(self, len(value))

    @property
    def obj(self) -> Manifest:
        """The decoded object, shared for as long as it is kept; never change it."""
        obj = self._obj
        if obj is None:
            obj = self._obj = _decode(self.raw)
            _decoded.add(self, len(self.raw))
        return obj

    def look(self) -> Manifest:
        """The decoded object for one use, as when many are listed: not cached."""
        obj = self._obj
        return _decode(self.raw) if obj is None else obj

    def drop(self) -> None:
        """Keep the bytes only."""
        self._obj = None


class Event:
    """One step of history: `entry` is the new state (for a deletion the last state under the deletion's revision)."""

    __slots__ = ("deleted", "entry", "frames", "prev", "revision")

    def __init__(self, entry: Entry, prev: Entry | None, deleted: bool) -> None:
        self.entry = entry
        self.prev = prev
        self.deleted = deleted
        self.revision = entry.revision
        self.frames: dict[str, bytes] | None = None

    def frame(self, form: str, make: Callable[[], bytes]) -> bytes:
        """The event as the watches of one form send it, made once for all that read it at about the same time."""
        frames = self.frames
        if frames is None:
            frames = self.frames = {}
            _framed.add(self, len(self.entry.raw))
        frame = frames.get(form)
        if frame is None:
            frame = frames[form] = make()
        return frame

    def drop(self) -> None:
        """Let go of what was sent."""
        self.frames = None


class Watch(Protocol):
    """A cursor over the history of one resource."""

    async def next(self, timeout: float | None) -> list[Event]:
        """Events after the cursor, at least one, or none when `timeout` seconds passed.

        Raises Compacted when the reader fell behind the kept history.
        """

    @property
    def revision(self) -> int:
        """Revision up to which the reader has seen everything."""


class Reads(Protocol):
    """What lists and watches are answered from."""

    @property
    def revision(self) -> int:
        """Revision of the latest write."""

    def get(self, key: Key) -> Entry | None:
        """Present state of one object."""

    def list(self, group: str, resource: str, namespace: str = "", start: str = "") -> Iterable[Entry]:
        """Present states ordered by the bytes of namespace/name; all namespaces when `namespace` is empty.

        `start` is the place of the first one: a name, or namespace/name where all namespaces are listed.
        """

    def list_at(self, group: str, resource: str, namespace: str, revision: int, start: str = "") -> Iterable[Entry]:
        """States as of a revision; raises Compacted below the floor."""

    def count(self, group: str, resource: str, namespace: str = "", revision: int = 0, start: str = "") -> int:
        """How many states `list` has, with a revision `list_at`; raises Compacted below the floor."""

    def watch(self, group: str, resource: str, revision: int) -> Watch:
        """Events after a revision; raises Compacted below the floor."""


class Store(Reads, Protocol):
    """What a store does; every method but the writes and `start`/`stop` answers from memory."""

    async def start(self) -> None:
        """Load the present state; afterwards reads are complete."""

    async def stop(self) -> None:
        """Finish accepted writes and let go of connections."""

    @property
    def ready(self) -> bool:
        """Whether writes can be expected to succeed."""

    async def lost(self) -> str:
        """Return, once what is held is not what is stored any more, why; only a new start helps."""

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        """Write an object that is at revision `expected` (0: does not exist).

        Raises Conflict, StoreUnavailable or StoreTooLarge.
        """

    async def put_all(self, puts: Sequence[tuple[Key, Manifest, int]]) -> list[Entry]:
        """Write objects that are at the given revisions, all or none, as neighbours in the order of revisions.

        At most MOST_SET_OBJECTS with MOST_SET_BYTES, each once. Raises what `put` raises.
        """

    async def delete(self, key: Key, obj: Manifest, expected: int) -> Entry:
        """Remove an object at revision `expected`, recording `obj` as its last state."""

    def listen(self, listener: Callable[[Event], None], *resources: tuple[str, str]) -> None:
        """Call a function with every event from now on, right after it became visible; it must return at once.

        With `resources` (group and plural), only with events of these.
        """

    def floor(self, group: str, resource: str) -> int:
        """Oldest revision from which watching this resource is possible."""

"""The interface of a service to the runtime: a fold, a decision, and hooks for side effects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from schemas.codec import Known
from schemas.hints import Purged
from services._kit.log.stream_port import Log, Message

if TYPE_CHECKING:
    from services._kit.base.clock import Clock
    from services._kit.base.health import Health
    from services._kit.base.metrics import KitMetrics
    from services._kit.base.settings import Settings
    from services._kit.content.blobs import Blobs
    from services._kit.leadership.write_guard import Guard
    from services._kit.log.connection import Connection
    from services._kit.runtime.appender import Appender
    from services._kit.runtime.projection import Projection
    from services._kit.runtime.restore_progress import Restoration

S = TypeVar("S")
K = TypeVar("K", bound=Hashable)
K_co = TypeVar("K_co", bound=Hashable, covariant=True)


class Decision(Struct, frozen=True):
    """What should become true of a key.

    `events` carry `own` and `inputs` in their provenance, the runner fills in the rest. At `wake_at` (seconds since
    1970) the key is decided again. `effects` are handed to `perform` once the events are stored. `also` are other keys
    whose decision may change by what this one found out.
    """

    events: Sequence[Known] = ()
    wake_at: float | None = None
    effects: Sequence[object] = ()
    also: Sequence[Any] = ()


NOTHING = Decision()


class Context(Generic[S, K]):
    """What a running service may use; handed to its `start`."""

    def __init__(
        self,
        *,
        logs: Mapping[str, Log],
        projection: Projection[S, K],
        mark: Callable[[Iterable[K]], None],
        clock: Clock,
        blobs: Blobs,
        health: Health,
        settings: Settings,
        instance: str,
        metrics: KitMetrics,
        appender: Appender[K],
        connection: Connection | None = None,
        guard: Guard | None = None,
        restoration: Restoration | None = None,
    ) -> None:
        self.logs = logs
        self.projection = projection
        self.mark = mark
        """Mark keys dirty for a reason outside the log (a watch, a probe)."""
        self.clock = clock
        self.blobs = blobs
        self.health = health
        self.settings = settings
        self.instance = instance
        self.metrics = metrics
        self.appender = appender
        """Fenced with the service's lease; for services that append outside of `decide`."""
        self.connection = connection
        self.guard = guard
        """Asked before requests to clusters; None for services that do not lead."""
        self.restoration = restoration


class Service(Protocol[S, K_co]):
    """A deterministic reader of the log: what it says follows from messages, state and time.

    `fold` changes the state. `decide` asks a pure function (decide.py) and takes in what that says is to be remembered.
    """

    name: str
    filters: Sequence[str]
    """Subjects to project, own outputs included; `observed.>` is read from its own stream."""

    def new_state(self) -> S:
        """An empty projection."""

    def fold(self, state: S, message: Message, event: Known) -> Iterable[K_co]:
        """Apply one event to the state; the keys whose decision may change."""

    def last_seq(self, state: S, subject: str) -> int:
        """Sequence of the last event of a subject in the state, 0 for none."""

    def unreadable(self, state: S, message: Message) -> Iterable[K_co]:
        """Keys that must wait because a newer version wrote this message."""


class Decider(Service[S, K], Protocol[S, K]):
    """A service whose outputs are events."""

    def recover(self, state: S) -> Iterable[K]:
        """Keys to decide after taking over: inputs newer than the output saw, or a deadline to be remembered."""

    def decide(self, state: S, key: K, now: float) -> Decision:
        """What should be true of a key; no event when it already is."""


class BaseService(ABC, Generic[S, K]):
    """Default hooks: a service that needs none of them has nothing to write."""

    name: str = ""
    filters: Sequence[str] = ()
    leads: bool = True
    """Whether one instance at a time does the work; a reader like the gateway sets it to false."""
    patience: float = 0.0
    """Seconds that messages may wait for others before they are folded together, while this instance works."""
    hurries: tuple[str, ...] = ()
    """Beginnings of subjects that never wait, own outputs among them: they are waited for."""
    rank: Callable[[S, K], float] | None = None
    """The order in which dirty keys are decided, the smallest first; None: first come, first served."""

    @abstractmethod
    def new_state(self) -> S:
        """An empty projection."""

    @abstractmethod
    def fold(self, state: S, message: Message, event: Known) -> Iterable[K]:
        """Apply one event to the state; the keys whose decision may change."""

    def last_seq(self, state: S, subject: str) -> int:
        """Sequence of the last event of a subject in the state, 0 for none (or when it is not needed)."""
        del state, subject
        return 0

    def unreadable(self, state: S, message: Message) -> Iterable[K]:
        """Keys that must wait because a newer version wrote this message."""
        del state, message
        return ()

    def forget(self, state: S, purged: Purged) -> None:
        """Drop what the state remembers of things that are gone from the log; whatever is not at its end stays.

        It may come before or after the events of a new object of the same name, or not at all.
        """
        del state, purged

    async def start(self, context: Context[S, K]) -> None:
        """Before the first event is folded: open connections, register metrics."""

    async def on_caught_up(self) -> None:
        """The projection reached the end of the log for the first time."""

    async def on_leading(self) -> None:
        """This instance is the leader and its projection holds everything the previous one wrote."""

    async def on_following(self) -> None:
        """This instance is not the leader any more: stop every side effect."""

    def on_dirty(self, keys: Iterable[K]) -> None:
        """Keys changed; for services that act instead of deciding."""

    def unsettled(self, state: S, now: float) -> str:
        """What has to come before this service has compared a restored log with what it watches; empty for nothing.

        Asked only when no key is dirty or on its way.
        """
        del state, now
        return ""

    def on_restored(self) -> None:
        """The restore under way is over: what waited for it may be delivered. Called while active."""

    async def perform(self, effects: Sequence[object]) -> None:
        """Carry out the effects of stored decisions; they are idempotent and may be lost in a crash."""

    async def stop(self) -> None:
        """The last call: close connections."""


AnyService = Any
"""A BaseService with whatever state and key it has."""

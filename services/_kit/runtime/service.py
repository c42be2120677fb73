"""The interface of a service to the runtime: a fold, a decision, and hooks for side effects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from schemas.codec import Known
from schemas.keys import ObjectKey
from schemas.shard_groups import WHOLE, ShardGroup
from schemas.subjects import object_key
from services._kit.log.stream_port import Log, Message
from services._rules.decision import Decision
from services._rules.facets import ObjectStates, ServiceState

if TYPE_CHECKING:
    from services._kit.base.clock import Clock
    from services._kit.base.health import Health
    from services._kit.base.metrics import KitMetrics
    from services._kit.content.blobs import Blobs
    from services._kit.leadership.write_guard import Guard
    from services._kit.log.connection import Connection
    from services._kit.runtime.appender import Appender
    from services._kit.runtime.projection import Projection
    from services._kit.runtime.restore_progress import Restoration

S = TypeVar("S", bound=ServiceState)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=ObjectStates[Any])

_OF_NO_OBJECT = ("cluster.", "lease.", "policy.")


class Context(Struct, Generic[S, K], frozen=True, eq=False, kw_only=True):
    """What a running service may use; handed to its `start`."""

    logs: Mapping[str, Log]
    projection: Projection[S, K]
    mark: Callable[[Iterable[K]], None]
    """Mark keys dirty for a reason outside the log (a watch, a probe)."""
    clock: Clock
    blobs: Blobs
    health: Health
    metrics: KitMetrics
    appender: Appender[K]
    """Fenced with the service's lease; for services that append outside of `decide`."""
    connection: Connection | None = None
    guard: Guard | None = None
    """Asked before requests to clusters; None for services that do not lead."""
    restoration: Restoration | None = None
    group: ShardGroup = WHOLE
    """The part of the work that is this service's; only its keys are handed over."""


class BaseService(ABC, Generic[S, K]):
    """A deterministic reader of the log: what it says follows from messages, state and time.

    A service that only acts on what it reads extends this; one whose outputs are events, `Decider`.
    """

    name: str = ""
    filters: Sequence[str] = ()
    """Subjects to project, own outputs included; `observed.>` is read from its own stream."""
    leads: bool = True
    """Whether one instance at a time does the work; a reader like the gateway sets it to false."""
    patience: float = 0.0
    """Seconds that messages may wait for others before they are folded together, while this instance works."""
    hurries: tuple[str, ...] = ()
    """Beginnings of subjects that never wait, own outputs among them: they are waited for."""
    rank: Callable[[S, K], float] | None = None
    """The order in which dirty keys are decided, the smallest first; None: first come, first served."""
    states: ClassVar[type[Any]]
    """What makes an empty projection, where no setting is needed for it."""
    _context: Context[S, K] | None = None

    @property
    def context(self) -> Context[S, K]:
        """What the service may use, from its `start` on."""
        assert self._context is not None, f"{self.name} was not started"
        return self._context

    @property
    def group(self) -> ShardGroup:
        """The part of the work that is this service's: all of it where it does not run."""
        return self._context.group if self._context is not None else WHOLE

    def owns(self, key: K) -> bool:
        """Whether a key belongs to the group of this service."""
        return self.group.count == 1 or self.group.owns(self.unit_of(key))

    @property
    def state(self) -> S:
        """The projection of the running service."""
        return self.context.projection.state

    def new_state(self) -> S:
        """An empty projection."""
        state: S = self.states()
        return state

    @abstractmethod
    def fold(self, state: S, message: Message, event: Known) -> Iterable[K]:
        """Apply one event to the state; the keys whose decision may change."""

    def unit_of(self, key: K) -> str:
        """What a key stands for when work is divided into shard groups; all keys of it are in the same group."""
        return str(key)

    def unreadable(self, state: S, message: Message) -> Iterable[K]:
        """Keys that must wait because a newer version wrote this message."""
        del state, message
        return ()

    async def start(self, context: Context[S, K]) -> None:
        """Before the first event is folded: open connections, register metrics."""
        self._context = context

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


class Decider(BaseService[S, K]):
    """A service whose outputs are events."""

    @abstractmethod
    def recover(self, state: S) -> Iterable[K]:
        """Keys to decide after taking over: inputs newer than the output saw, or a deadline to be remembered."""

    @abstractmethod
    def decide(self, state: S, key: K, now: float) -> Decision:
        """What should be true of a key; no event when it already is.

        It asks a pure function (`decide.py`) and takes in what that says is to be remembered.
        """


class ObjectDecider(Decider[T, ObjectKey]):
    """A service that decides objects by their facets."""

    folds: ClassVar[Callable[..., Iterable[ObjectKey]]]
    """The fold of its state, with position, subject and event."""

    def fold(self, state: T, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one event to the state; the objects whose decision may change."""
        return self.folds(state, message.seq, message.subject, event)

    def unreadable(self, state: T, message: Message) -> Iterable[ObjectKey]:
        """The object whose facet a newer version wrote."""
        return () if message.subject.startswith(_OF_NO_OBJECT) else (object_key(message.subject),)

    def recover(self, state: T) -> Iterable[ObjectKey]:
        """Every object: the time may have come for it while no instance led."""
        return list(state.objects)


AnyService = Any
"""A BaseService with whatever state and key it has."""

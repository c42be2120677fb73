"""A service at the end of a log: given events, when a key is decided, then events.

Only this module knows how the services fold and decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.placement import PlacementEvent
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._kit.log.stream_port import Message
from services.descheduler import state as descheduler
from services.estimator import decide as estimating
from services.estimator import state as estimator
from services.estimator.remote import MemberAnswers
from services.executor import state as executor
from services.failover import decide as evicting
from services.failover import state as failover
from services.override_renderer import decide as rendering
from services.override_renderer import state as renderer
from services.scheduler import decide as scheduling
from services.scheduler import state as scheduler
from services.status_aggregator import decide as summing
from services.status_aggregator import state as aggregator
from tests.support.facts import KEY, NOW, binding, cluster, key, placement, template, work

ESTIMATOR_PATIENCE = 2.0
DEFAULT_SCHEDULER = "default-scheduler"


class Logic(NamedTuple):
    """The pure part of a service, or the service itself without a log."""

    new: Callable[[], Any]
    fold: Callable[[Any, Message, Known], Iterable[Any]]
    decide: Callable[[Any, Any, float], Any]


def place(
    state: scheduler.SchedulerState,
    key: ObjectKey,
    now: float = NOW,
    name: str = DEFAULT_SCHEDULER,
    rules: scheduling.Rules | None = None,
) -> PlacementEvent | None:
    """The placement that should become the latest of an object, or None when the present one stands."""
    return scheduling.decide_with_trace(state, key, now, name, rules=rules or scheduling.Rules())[0]


def scheduler_with(rules: scheduling.Rules) -> Logic:
    """The scheduler under these rules."""
    return Logic(
        scheduler.SchedulerState,
        lambda state, message, event: scheduler.fold(state, message.seq, message.subject, event, message.time),
        lambda state, key, now: place(state, key, now, rules=rules),
    )


def failover_with(rules: evicting.Rules) -> Logic:
    """The failover service under these rules."""
    return Logic(
        failover.FailoverState,
        _by_subject(failover.fold),
        lambda state, key, now: evicting.decide(state, key, now, rules),
    )


def running(service: Any) -> Logic:
    """A whole service, its settings included."""
    return Logic(service.new_state, service.fold, service.decide)


def _by_subject(fold: Callable[[Any, int, str, Known], Iterable[Any]]) -> Callable[[Any, Message, Known], Any]:
    return lambda state, message, event: fold(state, message.seq, message.subject, event)


SCHEDULER = scheduler_with(scheduling.Rules())
RENDERER = Logic(
    renderer.RendererState,
    _by_subject(renderer.fold),
    lambda state, key, _: rendering.decide(state, key, rendering.AtHand()),
)
AGGREGATOR = Logic(
    aggregator.AggregatorState, _by_subject(aggregator.fold), lambda state, key, _: summing.decide(state, key)
)
EXECUTOR = Logic(executor.ExecutorState, _by_subject(executor.fold), lambda *_: None)
ESTIMATOR = Logic(
    estimator.EstimatorState,
    lambda state, message, event: estimator.fold(state, message.seq, message.subject, event, message.time),
    lambda state, key, now: estimating.decide(state, MemberAnswers(), key, now, ESTIMATOR_PATIENCE),
)
DESCHEDULER = Logic(descheduler.DeschedulerState, _by_subject(descheduler.fold), lambda *_: None)


def events_of(decision: Any) -> list[Known]:
    """The events of whatever a service answers."""
    if hasattr(decision, "events"):
        return list(decision.events)
    return [] if decision is None else [decision]


class Harness:
    """The state of a service, the log that it was folded from, and the time."""

    def __init__(self, logic: Logic, *events: Known, now: float = NOW) -> None:
        self.logic = logic
        self.state = logic.new()
        self.now = now
        self.log: list[tuple[Message, Known]] = []
        self.marked: set[Any] = set()
        """Keys that the last facts given made dirty."""
        self.given(*events)

    @property
    def seq(self) -> int:
        """The position of the last event."""
        return len(self.log)

    def given(self, *events: Known) -> set[Any]:
        """Append events and fold them; the keys that they make dirty."""
        self.marked = set()
        for event in events:
            self.log.append((Message(subject_of(event), self.seq + 1, self.now, {}, b""), event))
            self.marked |= set(self.logic.fold(self.state, *self.log[-1]))
        return self.marked

    def marks(self, *events: Known) -> set[str]:
        """The names of the objects that these events make dirty."""
        return {found.name for found in self.given(*events)}

    def decision(self, of: ObjectKey | str = KEY) -> Any:
        """What the service answers of a key; nothing of it is appended."""
        return self.logic.decide(self.state, key(of) if isinstance(of, str) else of, self.now)

    def decided(self, of: ObjectKey | str = KEY) -> Any:
        """The one event that would be appended, or None."""
        return _one(events_of(self.decision(of)))

    def decides(self, of: ObjectKey | str = KEY) -> Any:
        """Decide a key and append what comes out: one event or None."""
        return _one(self.decides_all(of))

    def decides_all(self, of: ObjectKey | str = KEY) -> list[Known]:
        """Decide a key and append what comes out."""
        return self.takes(events_of(self.decision(of)))

    def takes(self, decided: Sequence[Known]) -> list[Known]:
        """Append decided events with the provenance that the runner gives them."""
        events = [
            replace(event, provenance=replace(event.provenance, as_of=self.seq, decided_at=self.now))
            for event in decided
        ]
        self.given(*events)
        return events

    def restarted(self) -> Harness:
        """Another instance that reads the last event of every subject."""
        other = Harness(self.logic, now=self.now)
        last = {message.subject: (message, event) for message, event in self.log}
        for message, event in sorted(last.values(), key=lambda item: item[0].seq):
            list(self.logic.fold(other.state, message, event))
        other.log = list(self.log)
        return other


class RendererHarness(Harness):
    """The renderer; manifests that it does not keep are read from its log."""

    def __init__(self, *events: Known) -> None:
        self.at_hand = rendering.AtHand()
        logic = Logic(RENDERER.new, RENDERER.fold, lambda state, key, _: rendering.decide(state, key, self.at_hand))
        super().__init__(logic, *events)

    def decision(self, of: ObjectKey | str = KEY) -> Any:
        """The works that it would append once everything they need was read."""
        works = super().decision(of)
        if not works.missing:
            return works
        assert not works.events, "nothing is said before what stays in force was read"
        for digest, position in works.missing:
            stored = self.log[position - 1][1]
            assert isinstance(stored, WorkRendered)
            assert stored.digest == digest
            self.at_hand.blobs[digest] = bytes(stored.manifest)  # type: ignore[arg-type]
        return super().decision(of)

    def works(self, of: ObjectKey | str = KEY) -> dict[str, WorkEvent]:
        """Decide and append works, by cluster."""
        return {event.cluster: event for event in self.decides_all(of)}  # type: ignore[union-attr, misc]


def aggregator_of(*events: Known) -> Harness:
    """The aggregator of the example on m1 and m2, or of these facts."""
    example = (cluster("m1"), cluster("m2"), template(), binding(2), placement(m1=1, m2=1), work("m1"), work("m2"))
    return Harness(AGGREGATOR, *(events or example), now=0.0)


def content(rendered: Known) -> Any:
    """The manifest that a work carries."""
    assert isinstance(rendered, WorkRendered)
    assert isinstance(rendered.manifest, Raw)
    return msgspec.json.decode(rendered.manifest)


def _one(events: Sequence[Known]) -> Any:
    assert len(events) <= 1, events
    return events[0] if events else None


def seen_at(event: Any, position: int) -> Any:
    """The event as decided in view of the log up to a position."""
    return replace(event, provenance=Provenance(as_of=position))

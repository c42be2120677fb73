"""What must hold of the log alone: whole chains, causes of withdrawals, folds that depend on nothing but the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from schemas.codec import Known, decode
from schemas.envelope import HEADER_EVENT_ID
from schemas.events.work import WorkWithdrawn
from schemas.subjects import object_key, split
from services import (
    descheduler,
    detector,
    estimator,
    executor,
    failover,
    override_renderer,
    registrar,
    scheduler,
    status_aggregator,
)
from services._kit.log.stream_port import Message
from services._rules.capacity.reservations import ReservationLedger
from services.descheduler.state import DeschedulerState
from services.descheduler.state import fold as fold_descheduler
from services.detector.state import DetectorState
from services.detector.state import fold as fold_detector
from services.estimator.state import EstimatorState
from services.estimator.state import fold as fold_estimator
from services.executor.state import ExecutorState
from services.executor.state import fold as fold_executor
from services.failover.state import FailoverState
from services.failover.state import fold as fold_failover
from services.gateway.state import GatewayState
from services.gateway.state import fold as fold_gateway
from services.override_renderer.state import RendererState
from services.override_renderer.state import fold as fold_renderer
from services.registrar.state import RegistrarState
from services.registrar.state import fold as fold_registrar
from services.scheduler.queue.unschedulable_queue import UnschedulableIndex
from services.scheduler.state import SchedulerState
from services.scheduler.state import fold as fold_scheduler
from services.status_aggregator.state import AggregatorState, Spent
from services.status_aggregator.state import fold as fold_aggregator
from tests.support.withdrawal_causes import Losses, losses

_CONTEXT = frozenset({"cluster", "policy", "absence", "confirmation"})
"""Facts that concern many objects; all other causes of a withdrawal are facets of the same object."""


def chains(messages: Sequence[Message], since: int) -> list[str]:
    """Every event after `since` names the previous event of its subject, and no event id occurs twice."""
    complaints = []
    last: dict[str, int] = {}
    ids: dict[str, int] = {}
    for message in messages:
        prev = decode(message.subject, message.data).prev
        named = prev if prev >= 0 else message.seq + prev
        if message.seq > since and named != last.get(message.subject, 0):
            complaints.append(
                f"FACTS {message.seq}: {message.subject} follows {last.get(message.subject, 0)}, its prev says {named}"
            )
        last[message.subject] = message.seq
        name = message.headers.get(HEADER_EVENT_ID, "")
        if not name:
            complaints.append(f"FACTS {message.seq}: {message.subject} has no event id")
        elif name in ids and message.seq > since:
            complaints.append(f"FACTS {message.seq}: {message.subject} was stored twice, first at {ids[name]}")
        ids[name] = message.seq
    return complaints


def causes(messages: Sequence[Message], since: int) -> list[str]:
    """Every withdrawal after `since` names earlier facts that concern its object."""
    subjects = {message.seq: message.subject for message in messages}
    complaints = []
    for message in messages:
        event = decode(message.subject, message.data) if message.seq > since else None
        if not isinstance(event, WorkWithdrawn):
            continue
        named = event.provenance.causes
        if not named:
            complaints.append(f"FACTS {message.seq}: {message.subject} is withdrawn without a cause")
        for cause in named:
            subject = subjects.get(cause, "")
            aggregate = split(subject)[0] if subject else ""
            concerns = aggregate in _CONTEXT or (subject and object_key(subject) == event.key)
            if cause >= message.seq or not concerns:
                complaints.append(f"FACTS {message.seq}: {message.subject} names {cause} ({subject}) as its cause")
    return complaints


def unrecorded(messages: Sequence[Message], observed: Sequence[Message], since: int) -> list[str]:
    """Everything that was taken away after `since` has a recorded cause: ends of templates too, and reported ones."""
    return losses_of(messages, observed, since).uncaused


def losses_of(messages: Sequence[Message], observed: Sequence[Message], since: int) -> Losses:
    """Everything that was taken away after `since`, counted by kind of event."""
    facts = [(message.seq, decode(message.subject, message.data)) for message in messages]
    reports = [decode(message.subject, message.data) for message in observed]
    return losses(facts, reports, since)


Fold = Callable[[Any, Message, Known], Iterable[object] | None]
FOLDS: tuple[tuple[str, Callable[[], Any], Sequence[str], Fold], ...] = (
    (
        detector.__name__,
        DetectorState,
        ("template", "policy", "binding"),
        lambda state, message, event: fold_detector(state, message.seq, message.subject, event),
    ),
    (
        scheduler.__name__,
        SchedulerState,
        ("binding", "cluster", "estimate", "eviction", "descheduling", "placement", "rollup"),
        lambda state, message, event: fold_scheduler(state, message.seq, message.subject, event, message.time),
    ),
    (
        estimator.__name__,
        EstimatorState,
        ("binding", "cluster", "estimate", "eviction", "descheduling", "placement", "rollup"),
        lambda state, message, event: fold_estimator(state, message.seq, message.subject, event, message.time),
    ),
    (
        failover.__name__,
        FailoverState,
        ("binding", "cluster", "eviction", "placement", "rollup"),
        lambda state, message, event: fold_failover(state, message.seq, message.subject, event),
    ),
    (
        descheduler.__name__,
        DeschedulerState,
        ("binding", "placement", "eviction", "rollup", "descheduling"),
        lambda state, message, event: fold_descheduler(state, message.seq, message.subject, event),
    ),
    (
        override_renderer.__name__,
        RendererState,
        ("template", "policy", "binding", "placement", "eviction", "descheduling", "cluster", "work"),
        lambda state, message, event: fold_renderer(state, message.seq, message.subject, event),
    ),
    (
        executor.__name__,
        ExecutorState,
        ("work", "cluster", "observed"),
        lambda state, message, event: fold_executor(state, message.seq, message.subject, event),
    ),
    (
        registrar.__name__,
        RegistrarState,
        ("work", "cluster", "observed"),
        lambda state, message, event: fold_registrar(state, message.seq, message.subject, event),
    ),
    (
        status_aggregator.__name__,
        AggregatorState,
        ("binding", "placement", "eviction", "descheduling", "work", "cluster", "rollup", "observed"),
        lambda state, message, event: fold_aggregator(state, message.seq, message.subject, event),
    ),
    (
        "services.gateway",
        GatewayState,
        (
            "template",
            "policy",
            "cluster",
            "binding",
            "placement",
            "eviction",
            "descheduling",
            "work",
            "rollup",
            "observed",
        ),
        lambda state, message, event: fold_gateway(state, message.seq, message.time, event),
    ),
)

_TELL_TIMES = frozenset({"services.gateway", executor.__name__, failover.__name__})
"""Their folds remember since when something holds and what was applied before: a fresh start looks that up."""


def folds(messages: Sequence[Message], observed: Sequence[Message]) -> list[str]:
    """Two folds of the log give the same state, and so does a fold of what a fresh start reads."""
    complaints = []
    for name, new, aggregates, fold in FOLDS:
        read = relevant(messages, observed, aggregates)
        first, second = new(), new()
        run(first, read, fold)
        run(second, read, fold)
        present = new()
        newest = {message.subject: (message, event) for message, event in read}
        run(
            present,
            sorted(newest.values(), key=lambda pair: (pair[0].subject.startswith("observed"), pair[0].seq)),
            fold,
        )
        others = [("a second fold", second)]
        if name not in _TELL_TIMES:
            others.append(("a fold of the last event of every subject", present))
        for what, other in others:
            found = difference(first, other, "state")
            if found:
                complaints.append(f"{name}: {what} gives another state: {found}")
    return complaints


def difference(first: Any, second: Any, where: str) -> str:
    """Where two values differ, empty when they do not; objects without an equality of their own are looked into.

    Functions, private counters and caches are no state. Of a ledger the facts count: what it holds of each object
    depends on when its clusters told of it, and is told anew after a start. Of those that wait for clusters counts who
    they are: with what they were tried is found out anew. How much was said lately is forgotten by a start.
    """
    if first is second or callable(first):
        return ""
    if type(first) is not type(second):
        return f"{where}: {type(first).__name__} and {type(second).__name__}"
    if isinstance(first, ReservationLedger):
        return difference(_facts(first), _facts(second), f"{where}.facts")
    if isinstance(first, Spent):
        return ""
    if isinstance(first, UnschedulableIndex):
        return "" if first == second else f"{where}: other objects are looked after"
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return f"{where}: keys {sorted(map(str, first.keys() ^ second.keys()))[:5]}"
        pairs = [(first[key], second[key], f"{where}[{key}]") for key in first]
    elif isinstance(first, (list, tuple)):
        if len(first) != len(second):
            return f"{where}: {len(first)} and {len(second)} items"
        pairs = [(a, b, f"{where}[{index}]") for index, (a, b) in enumerate(zip(first, second, strict=True))]
    else:
        names = list(getattr(first, "__struct_fields__", ())) or list(getattr(first, "__dict__", ()))
        names = names or [name for kind in type(first).__mro__ for name in getattr(kind, "__slots__", ())]
        names = [name for name in names if name not in ("_generation", "_memory")]
        if not names or isinstance(first, msgspec.Raw):
            return "" if first == second else f"{where}: {str(first)[:100]!r} and {str(second)[:100]!r}"
        pairs = [(getattr(first, name, None), getattr(second, name, None), f"{where}.{name}") for name in names]
    return next((found for pair in pairs if (found := difference(*pair))), "")


def _facts(ledger: ReservationLedger) -> dict[str, tuple[object, ...]]:
    return {
        str(key): (one.uid, one.needs, one.placed_uid, one.placed_at, one.targets, one.shown_uid, dict(one.shown))
        for key, one in ledger._objects.items()
    }


def relevant(
    messages: Iterable[Message], observed: Iterable[Message], aggregates: Sequence[str]
) -> list[tuple[Message, Known]]:
    """What a service that reads these aggregates reads, FACTS first."""
    wanted = frozenset(aggregates)
    return [(m, decode(m.subject, m.data)) for m in (*messages, *observed) if split(m.subject)[0] in wanted]


def run(state: Any, read: Iterable[tuple[Message, Known]], fold: Fold) -> None:
    """Fold messages into a state."""
    for message, event in read:
        # A fold may be a generator: it works only while it is consumed.
        for _ in fold(state, message, event) or ():
            pass

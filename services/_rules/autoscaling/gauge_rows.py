"""Counts what the facts of autoscalers say, for metrics: replicas, conditions, and rules of schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.events.autoscaling import ReplicasRecommended, RuleProgress, ScheduleAdvanced

Row = tuple[tuple[str, ...], float]
RUNNING: Final = "running"
WAITING: Final = "waiting"
SUSPENDED: Final = "suspended"
UNREADABLE: Final = "unreadable"
"""States of rules: one that is unreadable never runs, and says why."""
_STATES: Final = (RUNNING, WAITING, SUSPENDED, UNREADABLE)


class _Limits(Struct, rename="camel"):
    min_replicas: int | None = None
    max_replicas: int | None = None


_limits: Final = msgspec.json.Decoder(_Limits)


def replica_rows(events: Iterable[ReplicasRecommended]) -> Iterator[Row]:
    """Replicas by namespace and name of a FederatedHPA, and by what they are; what is not known has no row."""
    for event in events:
        least, most = _limits_of(event.spec)
        for of, replicas in (
            ("now", event.current),
            ("desired", event.desired),
            ("recommended", event.recommended),
            ("least", least),
            ("most", most),
        ):
            if replicas is not None:
                yield (event.key.namespace, event.key.name, of), float(replicas)


def _limits_of(spec: Raw) -> tuple[int | None, int | None]:
    try:
        found = _limits.decode(spec)
    except msgspec.MsgspecError:
        return None, None
    return 1 if found.min_replicas is None else found.min_replicas, found.max_replicas


def condition_rows(events: Iterable[ReplicasRecommended]) -> Iterator[Row]:
    """FederatedHPAs by type, status and reason of a condition."""
    found = Counter((item.type, item.status, item.reason) for event in events for item in event.conditions)
    for labels, count in found.items():
        yield labels, float(count)


def rule_rows(events: Iterable[ScheduleAdvanced]) -> Iterator[Row]:
    """Rules of CronFederatedHPAs by state, each state with a row."""
    found = Counter(_state(rule) for event in events for rule in event.rules)
    for state in _STATES:
        yield (state,), float(found[state])


def _state(rule: RuleProgress) -> str:
    if rule.problem:
        return UNREADABLE
    if rule.running:
        return RUNNING
    return WAITING if rule.due is not None else SUSPENDED

"""Decides whether replicas of one Deployment are descheduled, or which clusters to query first."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from schemas.events.descheduling import ReplicasDescheduled
from schemas.keys import ObjectKey
from services._rules.decision import NOTHING, Decision
from services._rules.generations import next_change
from services._rules.scheduling.descheduling import joined, taken_back
from services.descheduler.state import Answers, DeschedulerState

SHORTEST: Final = 1.0
"""Least seconds between two checks, however small the configured interval."""


class Question(Struct, frozen=True):
    """How many replicas of a Deployment have found no node in these clusters."""

    key: ObjectKey
    clusters: tuple[str, ...]
    seen: tuple[int, ...]


def next_turn(now: float, interval: float) -> float:
    """The next time at which Deployments that lack replicas are checked: the same for all, and after a restart."""
    step = max(interval, SHORTEST)
    return (math.floor(now / step) + 1) * step


def decide(
    state: DeschedulerState,
    key: ObjectKey,
    now: float,
    interval: float,
    turn: float | None,
    answers: Answers | None = None,
) -> Decision:
    """What becomes of one Deployment: replicas are taken back, or a query is the effect.

    `turn` is when its check was due, None when it lacks nothing so far: then it waits for the next turn, because
    a rollout lacks replicas, too. The answers to its last query are used if nothing has changed since they were asked
    for; each serves one decision.
    """
    given = state.objects.get(key)
    found = given.short() if given is not None else ()
    if given is None or not found:
        return NOTHING
    coming = next_turn(now, interval)
    # A turn further ahead than the next is from before the clock was set back.
    due = coming if turn is None else min(turn, coming)
    if answers is not None and answers.seen == given.asked_from:
        fresh = taken_back(found, answers.unschedulable)
        if fresh:
            event = ReplicasDescheduled(
                key=key,
                uid=given.uid,
                placement=given.placement_seq,
                clusters=joined(given.standing, fresh),
                changes=next_change(given.descheduling, given.uid),
                provenance=given.seen("binding", "placement", "rollup"),
            )
            return Decision((event,), due)
    if now < due:
        return Decision(wake_at=due)
    clusters = tuple(share.cluster for share in found if share.short)
    return Decision(wake_at=coming, effects=(Question(key, clusters, given.asked_from),))

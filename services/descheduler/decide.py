"""Decides whether replicas of one Deployment are descheduled, or which clusters to query first."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from schemas.envelope import Provenance
from schemas.events.descheduling import ReplicasDescheduled
from schemas.keys import ObjectKey
from services._rules.scheduling.descheduling import joined, taken_back
from services.descheduler.state import DeschedulerState

SHORTEST: Final = 1.0
"""Least seconds between two checks, however small the configured interval."""


class Question(Struct, frozen=True):
    """How many replicas of a Deployment have found no node in these clusters."""

    key: ObjectKey
    clusters: tuple[str, ...]
    seen: tuple[int, ...]


class DescheduleDecision(Struct, frozen=True):
    """A fact to append, or a query; `turn` is when to check again (seconds since 1970), None: at the next change."""

    event: ReplicasDescheduled | None = None
    question: Question | None = None
    turn: float | None = None


NOTHING: Final = DescheduleDecision()


def next_turn(now: float, interval: float) -> float:
    """The next time at which Deployments that lack replicas are checked: the same for all, and after a restart."""
    step = max(interval, SHORTEST)
    return (math.floor(now / step) + 1) * step


def decide(
    state: DeschedulerState, key: ObjectKey, now: float, interval: float, turn: float | None
) -> DescheduleDecision:
    """What becomes of one Deployment.

    `turn` is when its check was due, None when it lacks nothing so far: then it waits for the next turn, because
    a rollout lacks replicas, too. Answers in the state are used if nothing has changed since they were asked for; each
    serves one decision, and the caller drops it then.
    """
    given, answers = state.objects.get(key), state.answers.get(key)
    found = given.short() if given is not None else ()
    if given is None or not found:
        return NOTHING
    coming = next_turn(now, interval)
    # A turn further ahead than the next is from before the clock was set back.
    due = coming if turn is None else min(turn, coming)
    if answers is not None and answers.seen == given.seen:
        fresh = taken_back(found, answers.unschedulable)
        if fresh:
            own = {"binding": given.binding_seq, "placement": given.placement_seq, "rollup": given.rollup_seq}
            placed = given.placed
            assert placed is not None
            event = ReplicasDescheduled(
                key=key,
                uid=placed.uid,
                placement=given.placement_seq,
                clusters=joined(given.standing, fresh),
                provenance=Provenance(own={name: seq for name, seq in own.items() if seq}),
            )
            return DescheduleDecision(event=event, turn=due)
    if now < due:
        return DescheduleDecision(turn=due)
    clusters = tuple(share.cluster for share in found if share.short)
    return DescheduleDecision(question=Question(key, clusters, given.seen), turn=coming)

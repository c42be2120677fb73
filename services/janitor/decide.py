"""Decides which events of the log may be purged now, and when to check again; reasons are sentences for users."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import policy as policy_subject
from schemas.topology import FACTS
from services._rules.history.retention import (
    Facet,
    LastObservation,
    Purge,
    cluster_holds,
    cluster_purges,
    highest,
    last_activity,
    purges_of,
    unfinished,
)
from services.janitor.state import TAIL_BYTES, JanitorState, Key, Tail


class CleanupDecision(Struct, frozen=True):
    """Purges in their order; `waits` is why there are none.

    `ask_history`: the only thing missing is that HISTORY was seen to hold everything up to `needs`. At `wake_at`
    (seconds since 1970) something may be due.
    """

    purges: tuple[Purge, ...] = ()
    waits: str = ""
    wake_at: float | None = None
    ask_history: bool = False
    needs: int = 0


def decide(state: JanitorState, key: Key, now: float, retention: float) -> CleanupDecision:
    """What of an object, a policy or a cluster may go; `retention` in seconds."""
    match key:
        case ObjectKey():
            return _object(state, key, now, retention)
        case PolicyKey():
            return _policy(state, key, now, retention)
        case Tail():
            return CleanupDecision(waits="a busy subject is trimmed, not purged")
        case _:
            return _cluster(state, key, now, retention)


def trims(state: JanitorState, key: Tail) -> bool:
    """Whether a subject has to be checked for trimming."""
    return state.counts.get(key.subject, 0) > state.tail or state.weights.get(key.subject, 0) > TAIL_BYTES


def _object(state: JanitorState, key: ObjectKey, now: float, retention: float) -> CleanupDecision:
    remains = state.objects.get(key)
    if remains is None:
        return CleanupDecision(waits="the log holds nothing of it")
    waits = unfinished(remains, state.members, state.folded)
    if waits:
        return CleanupDecision(waits=waits)
    return _when(state, purges_of(key, remains), highest(remains), last_activity(remains) + retention, now)


def _policy(state: JanitorState, key: PolicyKey, now: float, retention: float) -> CleanupDecision:
    known = state.policies.get(key)
    if known is None or not known.closed:
        return CleanupDecision(waits="the policy is there" if known is not None else "the log holds nothing of it")
    return _when(state, (Purge(FACTS.name, policy_subject(key), known.seq),), known.seq, known.time + retention, now)


def _cluster(state: JanitorState, name: str, now: float, retention: float) -> CleanupDecision:
    removed = state.clusters.get(name)
    if removed is None:
        return CleanupDecision(waits="the log holds nothing of it")
    if not removed.closed:
        return CleanupDecision(waits="it is a member")
    works: dict[ObjectKey, Facet] = {}
    observed: dict[ObjectKey, LastObservation] = {}
    for key in state.in_cluster.get(name, ()):
        remains = state.objects[key]
        if (work := remains.works.get(name)) is not None:
            works[key] = work
        if (seen := remains.observed.get(name)) is not None:
            observed[key] = seen
    waits = cluster_holds(works)
    if waits:
        return CleanupDecision(waits=waits)
    needs = max((removed.seq, *(work.seq for work in works.values())))
    said: list[Facet | LastObservation] = [removed, *works.values(), *observed.values()]
    last = max(item.time for item in said)
    return _when(state, cluster_purges(name, removed, works, observed), needs, last + retention, now)


def _when(state: JanitorState, purges: Sequence[Purge], needs: int, due: float, now: float) -> CleanupDecision:
    """The conditions that all ends share: the retention is over, and HISTORY holds what would go."""
    if now < due:
        return CleanupDecision(waits="its retention is not over", wake_at=due)
    if state.held < needs:
        return CleanupDecision(waits="HISTORY does not hold it yet", ask_history=True, needs=needs)
    return CleanupDecision(purges=tuple(purges))

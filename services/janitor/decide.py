"""Decides which events of the log may be purged now, and when to check again; reasons are sentences for users."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import autoscaling as autoscaling_subject
from schemas.subjects import policy as policy_subject
from schemas.topology import FACTS
from services._rules.constants import AUTOSCALING_KINDS
from services._rules.decision import Decision
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
from services.janitor.state import TAIL_BYTES, JanitorState, Key, SliceKey, Tail


class End(Struct, frozen=True):
    """Remove what is left of something."""

    key: ObjectKey | PolicyKey | str | SliceKey
    purges: tuple[Purge, ...]

    @property
    def position(self) -> int:
        """Highest position in FACTS that goes."""
        return max((purge.up_to for purge in self.purges if purge.stream == FACTS.name), default=0)


class AskHistory(Struct, frozen=True):
    """Something waits for HISTORY to hold a position."""

    key: Key
    position: int


class Trim(Struct, frozen=True):
    """Count the events of a subject."""

    tail: Tail


class CleanupDecision(Decision, frozen=True):
    """An `End`, `AskHistory` or `Trim`, which is tried again while it does not get through; `waits`: why it is none."""

    waits: str = ""


def decide(state: JanitorState, key: Key, now: float, retention: float, patience: float = 10.0) -> CleanupDecision:
    """What of an object, a policy, a cluster or a slice may go, or is trimmed of a busy subject; times in seconds."""
    match key:
        case ObjectKey():
            found = _object(state, key, now, retention)
        case PolicyKey():
            found = _policy(state, key, now, retention)
        case SliceKey():
            found = _slice(state, key, now, retention)
        case Tail():
            found = CleanupDecision(effects=(Trim(key),) if _trims(state, key) else ())
        case _:
            found = _cluster(state, key, now, retention)
    return replace(found, wake_at=now + patience) if found.effects else found


def _trims(state: JanitorState, key: Tail) -> bool:
    """Whether a subject has to be checked for trimming."""
    return state.counts.get(key.subject, 0) > state.tail or state.weights.get(key.subject, 0) > TAIL_BYTES


def _object(state: JanitorState, key: ObjectKey, now: float, retention: float) -> CleanupDecision:
    remains = state.objects.get(key)
    if remains is None:
        return CleanupDecision(waits="the log holds nothing of it")
    waits = unfinished(remains, state.members, state.folded)
    if waits:
        return CleanupDecision(waits=waits)
    return _when(state, key, purges_of(key, remains), highest(remains), last_activity(remains) + retention, now)


def _policy(state: JanitorState, key: PolicyKey, now: float, retention: float) -> CleanupDecision:
    known = state.policies.get(key)
    if known is None or not known.closed:
        return CleanupDecision(waits="the policy is there" if known is not None else "the log holds nothing of it")
    subject = autoscaling_subject(key) if key.kind in AUTOSCALING_KINDS else policy_subject(key)
    return _when(state, key, (Purge(FACTS.name, subject, known.seq),), known.seq, known.time + retention, now)


def _slice(state: JanitorState, key: SliceKey, now: float, retention: float) -> CleanupDecision:
    known = state.slices.get(key)
    if known is None or not known.closed:
        return CleanupDecision(waits="it counts" if known is not None else "the log holds nothing of it")
    return _when(state, key, (Purge(FACTS.name, key.subject, known.seq),), known.seq, known.time + retention, now)


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
    return _when(state, name, cluster_purges(name, removed, works, observed), needs, last + retention, now)


def _when(
    state: JanitorState,
    key: ObjectKey | PolicyKey | str | SliceKey,
    purges: Sequence[Purge],
    needs: int,
    due: float,
    now: float,
) -> CleanupDecision:
    """The conditions that all ends share: the retention is over, and HISTORY holds what would go."""
    if now < due:
        return CleanupDecision(waits="its retention is not over", wake_at=due)
    if state.held < needs:
        return CleanupDecision(waits="HISTORY does not hold it yet", effects=(AskHistory(key, needs),))
    return CleanupDecision(effects=(End(key, tuple(purges)),) if purges else ())

"""What an agent knows: its cluster's works, how far it read, what it said of each, how to interpret; all is saved."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.agent import HelloAnswer
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from services._rules.cluster_works import ClusterWorks
from services._rules.interpreter.configured import KINDS

FORMAT: Final = 1


class AgentState(Struct, kw_only=True):
    """Works and reports; `log` and `position` name what was read, `uid` the Cluster they belong to.

    `configured` holds what users configured for interpretation, each with its position. Withdrawn works up to position
    `settled` ask for nothing.
    """

    cluster: str
    uid: str = ""
    log: str = ""
    position: int = 0
    works: ClusterWorks = field(default_factory=ClusterWorks)
    configured: dict[PolicyKey, tuple[PolicyChanged, int]] = field(default_factory=dict)
    settled: int = 0

    def fold(self, event: WorkEvent, seq: int) -> ObjectKey | None:
        """Apply one work; its object, None when it is of another cluster or asks for nothing."""
        self.position = max(self.position, seq)
        if event.cluster != self.cluster:
            return None
        if isinstance(event, WorkWithdrawn) and seq <= self.settled and event.key not in self.works.works:
            return None
        self.works.take_work(event, seq)
        return event.key

    def configure(self, event: PolicyEvent, seq: int) -> bool:
        """Apply a fact about interpretation; false when it is about something else."""
        self.position = max(self.position, seq)
        if event.key.kind not in KINDS:
            return False
        if isinstance(event, PolicyChanged):
            self.configured[event.key] = (event, seq)
        else:
            self.configured.pop(event.key, None)
        return True

    def forget_ended(self) -> None:
        """Drop withdrawn works whose end the hub knows of: nothing is left to be done about them."""
        works = self.works
        for key, (work, position) in list(works.works.items()):
            seen = works.observed.get(key)
            if isinstance(work, WorkWithdrawn) and seen is not None and seen.absent and seen.uid == work.uid:
                works.forget(key, position)

    def digests(self) -> set[str]:
        """Digests of all manifests that are in force, and of those that objects were made from before."""
        rendered = [work for work, _ in self.works.works.values() if isinstance(work, WorkRendered)]
        return {work.digest for work in (*rendered, *self.works.applied.values()) if work.digest}


def not_configured(state: AgentState, answer: HelloAnswer) -> list[PolicyDeleted]:
    """What is known of interpretation and was deleted so long ago that no fact is left of it; ask before `take_answer`.

    What was said later than the hub knew when it answered stays.
    """
    if answer.configured is None:
        return []
    there, same_log = set(answer.configured), state.log == answer.log
    return [
        PolicyDeleted(key=key, uid=event.uid)
        for key, (event, seq) in state.configured.items()
        if key not in there and not (same_log and seq > answer.as_of)
    ]


def take_answer(state: AgentState, answer: HelloAnswer) -> bool:
    """Note which Cluster and log the hub speaks of; true when everything known belongs to another membership.

    A new membership forgets the works of the old one and touches nothing in the cluster. A log that is read from its
    start may lack works that are known: they stay in force, because only a withdrawn work deletes.
    """
    rejoined = bool(state.uid) and state.uid != answer.uid
    if rejoined:
        state.works = ClusterWorks()
    state.position = answer.start - 1 if answer.start else 0
    state.uid, state.log, state.settled = answer.uid, answer.log, answer.settled
    return rejoined


class _Saved(Struct, kw_only=True):
    format: int
    cluster: str
    uid: str
    log: str
    position: int
    works: list[tuple[int, WorkEvent]]
    observed: list[WorkObserved]
    applied: list[WorkRendered]
    configured: list[tuple[int, PolicyChanged]] | None = None


class NotOurs(ValueError):
    """Saved bytes of another cluster or of a version this one cannot read."""


_decoder = msgspec.json.Decoder(_Saved)


def save(state: AgentState) -> bytes:
    """The state as it is kept on disk."""
    works = state.works
    return msgspec.json.encode(
        _Saved(
            format=FORMAT,
            cluster=state.cluster,
            uid=state.uid,
            log=state.log,
            position=state.position,
            works=[(seq, work) for work, seq in works.works.values()],
            observed=list(works.observed.values()),
            applied=list(works.applied.values()),
            configured=[(seq, event) for event, seq in state.configured.values()],
        )
    )


def load(cluster: str, data: bytes) -> AgentState:
    """The state from disk; raises NotOurs."""
    try:
        saved = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise NotOurs(f"it cannot be read: {error}") from None
    if saved.format != FORMAT or saved.cluster != cluster:
        raise NotOurs(f"it was written for cluster {saved.cluster} in format {saved.format}")
    works = ClusterWorks(
        works={work.key: (work, seq) for seq, work in saved.works},
        observed={event.key: event for event in saved.observed},
        applied={work.key: work for work in saved.applied},
    )
    return AgentState(
        cluster=cluster,
        uid=saved.uid,
        log=saved.log,
        # A version that knew nothing of interpretation passed the facts about it by: all are read anew.
        position=saved.position if saved.configured is not None else 0,
        works=works,
        configured={event.key: (event, seq) for seq, event in saved.configured or ()},
    )

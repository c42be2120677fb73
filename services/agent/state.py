"""What an agent knows: the works of its cluster, how far it read them, and what it said of each; all of it is saved."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.agent import HelloAnswer
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._rules.cluster_works import ClusterWorks

FORMAT: Final = 1


class AgentState(Struct, kw_only=True):
    """Works and reports; `log` and `position` name what was read, `uid` the Cluster they belong to."""

    cluster: str
    uid: str = ""
    log: str = ""
    position: int = 0
    works: ClusterWorks = field(default_factory=ClusterWorks)

    def fold(self, event: WorkEvent, seq: int) -> ObjectKey | None:
        """Apply one work; its object, None when it is of another cluster."""
        self.position = max(self.position, seq)
        if event.cluster != self.cluster:
            return None
        self.works.take_work(event, seq)
        return event.key

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


def take_answer(state: AgentState, answer: HelloAnswer) -> bool:
    """Note which Cluster and log the hub speaks of; true when everything known belongs to another membership.

    A new membership forgets the works of the old one and touches nothing in the cluster. A log that is read from its
    start may lack works that are known: they stay in force, because only a withdrawn work deletes.
    """
    rejoined = bool(state.uid) and state.uid != answer.uid
    if rejoined:
        state.works = ClusterWorks()
    state.position = answer.start - 1 if answer.start else 0
    state.uid, state.log = answer.uid, answer.log
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
    return AgentState(cluster=cluster, uid=saved.uid, log=saved.log, position=saved.position, works=works)

"""State of an agent: the works of its cluster, its read position, its latest reports, and interpreter configuration."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from schemas.agent import HelloAnswer
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from services._rules.delivery.cluster_works import ClusterWorks
from services._rules.interpreter.configuration import KINDS


class Changes(Struct):
    """What changed since it was last saved: these objects, or (`whole`) more than objects."""

    keys: set[ObjectKey] = field(default_factory=set)
    whole: bool = False

    def taken(self) -> Changes:
        """What there is, which counts as saved from now on."""
        taken = Changes(self.keys, self.whole)
        self.keys, self.whole = set(), False
        return taken


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
    identity: str = ""
    """Uid of the member's namespace kube-system, as the hub knows it."""
    changes: Changes = field(default_factory=Changes)

    def fold(self, event: WorkEvent, seq: int) -> ObjectKey | None:
        """Apply one work; its object, None when it is of another cluster or asks for nothing."""
        self.position = max(self.position, seq)
        if event.cluster != self.cluster:
            return None
        if isinstance(event, WorkWithdrawn) and seq <= self.settled and event.key not in self.works.works:
            return None
        self.works.take_work(event, seq)
        self.changes.keys.add(event.key)
        return event.key

    def observe(self, event: WorkObserved) -> None:
        """Take in the newest report on an object."""
        self.works.take_observation(event)
        self.changes.keys.add(event.key)

    def configure(self, event: PolicyEvent, seq: int) -> bool:
        """Apply a fact about interpretation; false when it is about something else."""
        self.position = max(self.position, seq)
        if event.key.kind not in KINDS:
            return False
        self.changes.whole = True
        if isinstance(event, PolicyChanged):
            self.configured[event.key] = (event, seq)
        else:
            self.configured.pop(event.key, None)
        return True

    def forget_ended(self, keys: Iterable[ObjectKey]) -> None:
        """Drop those withdrawn works whose end the hub has recorded: nothing is left to do for them."""
        works = self.works
        for key in keys:
            work, position = works.works.get(key, (None, 0))
            seen = works.observed.get(key)
            if isinstance(work, WorkWithdrawn) and seen is not None and seen.absent and seen.uid == work.uid:
                works.forget(key, position)
                self.changes.keys.add(key)

    def digests(self) -> set[str]:
        """Digests of all manifests that are in force, and of those that objects were made from before."""
        rendered = [work for work, _ in self.works.works.values() if isinstance(work, WorkRendered)]
        return {work.digest for work in (*rendered, *self.works.applied.values()) if work.digest}


def not_configured(state: AgentState, answer: HelloAnswer) -> list[PolicyDeleted]:
    """What is known of interpretation and was deleted so long ago that no fact is left of it; ask before `take_answer`.

    Facts from after the position of the hub's answer stay.
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
    """Store the Cluster and log of the hub's answer; true when the present state belongs to another membership.

    A new membership forgets the works of the old one and touches nothing in the cluster. A log that is read from its
    start may lack works that are known: they stay in force, because only a withdrawn work deletes.
    """
    rejoined = bool(state.uid) and state.uid != answer.uid
    if rejoined:
        state.works = ClusterWorks()
        state.changes.whole = True
    state.position = answer.start - 1 if answer.start else 0
    if answer.identity and state.identity != answer.identity:
        state.identity, state.changes.whole = answer.identity, True
    state.uid, state.log, state.settled = answer.uid, answer.log, answer.settled
    return rejoined

"""Answers known, requested and awaited of one pull member, given by its agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from schemas.agent import MAX_QUESTIONS, RoomQuestions, TakenPods
from schemas.keys import ObjectKey
from services._rules.capacity.replica_estimate import NO_OPINION, Answers, Requirements
from services._rules.capacity.reserved import PodClass

KEPT: Final = 512
PROBE_SECONDS: Final = 5.0
"""Seconds between queries of a member that did not answer, while an estimate needs it; no estimate waits for it."""
FRESH_SECONDS: Final = 5.0
"""How old an answer may be that is used for what could not be placed."""


class Known(Struct, frozen=True):
    """An answer: the position of the log it has read, the count, and when it came (seconds since 1970)."""

    position: int
    replicas: int
    at: float


class Remote(Struct):
    """One ready pull member."""

    silent: bool = False
    """It did not answer the last query: until it does, no estimate waits for it."""
    known: dict[str, Known] = field(default_factory=dict)
    wanted: dict[str, Requirements] = field(default_factory=dict)
    """Requirements to ask about with the next question."""
    waiting: dict[str, set[ObjectKey]] = field(default_factory=dict)
    """Objects that an answer is of interest to, by digest."""
    asked: set[str] = field(default_factory=set)
    """Digests in the question that is under way."""
    probed: float = 0.0

    def answer(self, wanted: Requirements, position: int, since: float) -> Known | None:
        """An answer from at or after a position of the log and a time, if there is one."""
        found = self.known.get(wanted.digest)
        return found if found is not None and found.position >= position and found.at >= since else None

    def may_ask(self, now: float) -> bool:
        """Whether it may be asked now: one that does not answer is only so often."""
        return not self.silent or now - self.probed >= PROBE_SECONDS

    def want(self, wanted: Requirements, key: ObjectKey, now: float) -> None:
        """Ask about some requirements; the answer is of interest to an object."""
        if self.silent:
            self.probed = now
        self.waiting.setdefault(wanted.digest, set()).add(key)
        self.wanted[wanted.digest] = wanted

    def next_digests(self) -> list[str]:
        """What to ask about next; nothing while a question is under way."""
        return [] if self.asked else list(self.wanted)[:MAX_QUESTIONS]

    def take_question(
        self, digests: list[str], taken: Mapping[PodClass, int], number: int, quotas: bool
    ) -> RoomQuestions:
        """The question about some of what is wanted; it is under way from now on."""
        self.asked = set(digests)
        return RoomQuestions(
            id=str(number),
            requirements=tuple(self.wanted.pop(digest).stated for digest in digests),
            taken=tuple(_pods(want, count) for want, count in taken.items()),
            quotas=quotas,
        )

    def answered(
        self, digests: list[str], replicas: tuple[int, ...] | None, position: int, now: float
    ) -> set[ObjectKey]:
        """Take what came back (None: nothing did); the objects that waited for it."""
        self.asked = set()
        self.silent = replicas is None
        concerned: set[ObjectKey] = set()
        if len(self.known) + len(digests) > KEPT:
            self.known.clear()
        for digest, count in zip(digests, replicas or (NO_OPINION,) * len(digests), strict=True):
            self.known[digest] = Known(position, count, now)
            concerned |= self.waiting.pop(digest, set())
        return concerned


class MemberAnswers(Struct):
    """What members say of their room, as the service watches and asks them: by nodes, and by agents."""

    nodes: dict[str, Answers] = field(default_factory=dict)
    agents: dict[str, Remote] = field(default_factory=dict)
    opening: dict[str, float] = field(default_factory=dict)
    """Members whose first lists are on their way, and until when they are waited for (seconds since 1970)."""

    def clear(self) -> None:
        """Forget everything."""
        for part in (self.nodes, self.agents, self.opening):
            part.clear()


def _pods(want: PodClass, count: int) -> TakenPods:
    requests = {name: str(amount) for name, amount in want.demand.requests}
    component = want.component(count)
    return TakenPods(
        count=count,
        namespace=want.namespace,
        requests=requests,
        claim=component.claim,
        priority_class=want.priority_class,
    )

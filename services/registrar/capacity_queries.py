"""Hands capacity queries to the agent of one cluster, and accepts only the answers that were asked for.

The agent waits with a request of its own, so it is reached without a subject that it would have to listen on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.agent import MAX_QUESTIONS, WAIT_SECONDS, RoomAnswers, RoomQuestions
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end
from services._rules.capacity.replica_estimate import MOST, NO_OPINION

ABSENT_SECONDS: Final = 4 * WAIT_SECONDS
"""How long after its last request an agent is taken to come back for questions."""
_LONGEST_PROBLEM: Final = 1024

Reply = Callable[[RoomAnswers], Awaitable[None]]
Deliver = Callable[[tuple[RoomQuestions, ...]], Awaitable[None]]


class _Asked(Struct):
    """A query, its reply callback, its deadline, and whether the agent has it."""

    question: RoomQuestions
    reply: Reply
    until: float
    handed: bool = False


class CapacityQueries:
    """Questions to one agent, each answered once or not at all; times are of a clock that never goes back."""

    def __init__(self, cluster: str, now: Callable[[], float], patience: float) -> None:
        self._cluster = cluster
        self._now = now
        self._patience = patience
        self._asked: dict[str, _Asked] = {}
        self._number = 0
        self._waiting: Deliver | None = None
        self._timer: asyncio.TimerHandle | None = None
        # An agent without a heartbeat so far may still wait for an answer of the previous leader.
        self._last_request = now()
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: RoomQuestions, reply: Reply) -> None:
        """Queue a query; it fails at once for an agent that is absent or cannot keep up."""
        self._forget_old()
        away = self._waiting is None and self._now() - self._last_request > ABSENT_SECONDS
        if away or len(self._asked) >= MAX_QUESTIONS:
            problem = "is away" if away else f"has not answered {len(self._asked)} questions"
            await reply(RoomAnswers(id=question.id, problem=f"the agent of cluster {self._cluster} {problem}"))
            return
        self._number += 1
        number = str(self._number)
        self._asked[number] = _Asked(question, reply, self._now() + self._patience)
        await self._hand_over()

    async def wait(self, deliver: Deliver) -> None:
        """The agent waits for questions: it gets those that are there, or the next, or none after a while."""
        before, self._waiting = self._waiting, deliver
        self._last_request = self._now()
        self._stop_timer()
        if before is not None:
            await before(())
        await self._hand_over()
        if self._waiting is not None:
            self._timer = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._tired)

    async def answered(self, answers: RoomAnswers) -> str:
        """Take an answer; why it counts for nothing, empty when it does.

        A count that no cluster can have is cut down to the greatest there is.
        """
        self._last_request = self._now()
        self._forget_old()
        asked = self._asked.get(answers.id)
        if asked is None or not asked.handed:
            return f"nothing was asked under number {answers.id[:32]!r}, or too long ago"
        question = asked.question
        wanted = 1 if question.workload is not None else len(question.requirements)
        if not answers.problem and len(answers.replicas) != wanted:
            return f"{len(answers.replicas)} counts for {wanted} requirements"
        if any(count < NO_OPINION for count in answers.replicas):
            return "a count below zero"
        del self._asked[answers.id]
        counts = tuple(min(count, MOST) for count in answers.replicas) if not answers.problem else ()
        await asked.reply(RoomAnswers(id=question.id, replicas=counts, problem=answers.problem[:_LONGEST_PROBLEM]))
        return ""

    async def close(self) -> None:
        """Let go of the agent; it asks the next registrar."""
        self._stop_timer()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            await waiting(())
        await end(*self._tasks)

    async def _hand_over(self) -> None:
        due = [(number, asked) for number, asked in self._asked.items() if not asked.handed]
        if self._waiting is None or not due:
            return
        deliver, self._waiting = self._waiting, None
        self._stop_timer()
        for _, asked in due:
            asked.handed = True
        await deliver(tuple(replace(asked.question, id=number) for number, asked in due))

    def _forget_old(self) -> None:
        """Drop the queries whose time is over; their answers come too late."""
        now = self._now()
        for number in [number for number, asked in self._asked.items() if asked.until <= now]:
            del self._asked[number]

    def _tired(self) -> None:
        deliver, self._waiting = self._waiting, None
        self._timer = None
        if deliver is not None:
            task = spawn("rooms", self._say_none(deliver))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _say_none(deliver: Deliver) -> None:
        await deliver(())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

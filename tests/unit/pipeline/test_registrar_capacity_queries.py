"""Questions about room reach an agent that waits, its answers count once, for what was asked, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from schemas.agent import MAX_QUESTIONS, RoomAnswers, RoomQuestions
from services.registrar.capacity_queries import ABSENT_SECONDS, CapacityQueries


class Hall:
    """One cluster's questions with what came back, and what its agent was handed."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rooms = CapacityQueries("m3", lambda: self.now, 3.0)
        self.replies: list[RoomAnswers] = []
        self.handed: list[tuple[RoomQuestions, ...]] = []

    async def asks(self, name: str = "q", requirements: int = 1) -> None:
        await self.rooms.ask(RoomQuestions(id=name, requirements=({"namespace": "n"},) * requirements), self._reply)

    async def waits(self) -> None:
        await self.rooms.wait(self._deliver)

    async def answers(self, *replicas: int, number: str = "") -> str:
        return await self.rooms.answered(RoomAnswers(id=number or self.handed[-1][0].id, replicas=replicas))

    async def _reply(self, answers: RoomAnswers) -> None:
        self.replies.append(answers)

    async def _deliver(self, questions: tuple[RoomQuestions, ...]) -> None:
        self.handed.append(questions)


async def asked() -> Hall:
    """A question that was handed to an agent."""
    hall = Hall()
    await hall.waits()
    await hall.asks()
    return hall


async def test_question_reaches_the_waiting_agent() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks("from-the-estimator", 2)
    assert len(hall.handed) == 1
    assert await hall.answers(3, -1) == ""
    assert hall.replies == [RoomAnswers(id="from-the-estimator", replicas=(3, -1))]


async def test_questions_gather_while_the_agent_works() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks("one")
    await hall.asks("two")
    await hall.asks("three")
    await hall.waits()
    assert [len(questions) for questions in hall.handed] == [1, 2]
    await hall.rooms.close()


async def test_agent_not_heard_of_yet_gets_the_question_later() -> None:
    hall = Hall()
    await hall.asks()
    assert hall.replies == []
    await hall.waits()
    assert [len(questions) for questions in hall.handed] == [1]
    assert await hall.answers(2) == ""
    assert hall.replies == [RoomAnswers(id="q", replicas=(2,))]


async def test_agent_that_never_came_is_away_after_a_while() -> None:
    hall = Hall()
    hall.now += ABSENT_SECONDS + 1
    await hall.asks()
    assert "is away" in hall.replies[0].problem
    await hall.waits()
    await hall.asks("two")
    hall.now += ABSENT_SECONDS + 1
    await hall.asks("three")
    assert "is away" in hall.replies[1].problem


@pytest.mark.parametrize(
    ("replicas", "problem"),
    [((), "0 counts for 1"), ((1, 2), "2 counts for 1"), ((-2,), "below zero"), ((-(2**80),), "below zero")],
)
async def test_invalid_answer_is_refused_and_not_forwarded(replicas: tuple[int, ...], problem: str) -> None:
    hall = await asked()
    assert problem in await hall.answers(*replicas)
    assert hall.replies == []
    assert await hall.answers(4) == ""


async def test_immeasurable_count_is_bounded() -> None:
    hall = await asked()
    assert await hall.answers(2**70) == ""
    assert hall.replies[0].replicas == (2**31 - 1,)


async def test_unasked_answers_are_refused() -> None:
    hall = Hall()
    assert "nothing was asked" in await hall.answers(7, number="1")
    await hall.waits()
    await hall.asks()
    assert "nothing was asked" in await hall.answers(7, number="2")
    assert "nothing was asked" in await hall.answers(7, number="q")
    assert await hall.answers(7) == ""
    assert "nothing was asked" in await hall.answers(8)
    assert [answers.replicas for answers in hall.replies] == [(7,)]


async def test_question_not_handed_out_cannot_be_answered() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks("one")
    await hall.asks("two")
    assert "nothing was asked" in await hall.answers(7, number="2")


async def test_late_answers_are_refused() -> None:
    hall = await asked()
    hall.now += 3.0
    assert "too long ago" in await hall.answers(7)
    assert hall.replies == []


async def test_second_wait_replaces_the_first() -> None:
    hall = Hall()
    await hall.waits()
    await hall.waits()
    assert hall.handed == [()]
    await hall.asks()
    assert [len(questions) for questions in hall.handed] == [0, 1]


async def test_agent_that_answers_nothing_gets_bounded_questions() -> None:
    hall = Hall()
    await hall.waits()
    for number in range(MAX_QUESTIONS):
        await hall.asks(str(number))
    await hall.asks("more")
    assert "has not answered" in hall.replies[-1].problem
    hall.now += 3.0
    await hall.waits()
    await hall.asks("later")
    assert hall.handed[-1][0].requirements


async def test_end_of_a_term_releases_the_agent() -> None:
    hall = Hall()
    await hall.waits()
    await hall.rooms.close()
    assert hall.handed == [()]
    await asyncio.sleep(0)

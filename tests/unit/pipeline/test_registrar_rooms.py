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


async def test_a_question_goes_to_the_agent_that_waits_and_its_answer_to_who_asked() -> None:
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


async def test_an_agent_that_was_not_heard_of_yet_gets_the_question_when_it_comes() -> None:
    hall = Hall()
    await hall.asks()
    assert hall.replies == []
    await hall.waits()
    assert [len(questions) for questions in hall.handed] == [1]
    assert await hall.answers(2) == ""
    assert hall.replies == [RoomAnswers(id="q", replicas=(2,))]


async def test_an_agent_that_never_came_is_said_to_be_away_after_a_while() -> None:
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
async def test_nonsense_is_refused_and_who_asked_hears_nothing_of_it(replicas: tuple[int, ...], problem: str) -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks()
    assert problem in await hall.answers(*replicas)
    assert hall.replies == []
    assert await hall.answers(4) == ""


async def test_an_absurd_count_is_cut_down() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks()
    assert await hall.answers(2**70) == ""
    assert hall.replies[0].replicas == (2**31 - 1,)


async def test_answers_that_nobody_asked_for_count_for_nothing() -> None:
    hall = Hall()
    assert "nothing was asked" in await hall.answers(7, number="1")
    await hall.waits()
    await hall.asks()
    assert "nothing was asked" in await hall.answers(7, number="2")
    assert "nothing was asked" in await hall.answers(7, number="q")
    assert await hall.answers(7) == ""
    assert "nothing was asked" in await hall.answers(8)
    assert [answers.replicas for answers in hall.replies] == [(7,)]


async def test_a_question_that_was_not_handed_out_cannot_be_answered() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks("one")
    await hall.asks("two")
    assert "nothing was asked" in await hall.answers(7, number="2")


async def test_late_answers_count_for_nothing() -> None:
    hall = Hall()
    await hall.waits()
    await hall.asks()
    hall.now += 3.0
    assert "too long ago" in await hall.answers(7)
    assert hall.replies == []


async def test_a_second_request_takes_the_place_of_the_first_which_is_let_go() -> None:
    hall = Hall()
    await hall.waits()
    await hall.waits()
    assert hall.handed == [()]
    await hall.asks()
    assert [len(questions) for questions in hall.handed] == [0, 1]


async def test_an_agent_that_takes_questions_and_answers_none_is_not_given_more_and_more() -> None:
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


async def test_the_end_of_a_term_lets_the_agent_go() -> None:
    hall = Hall()
    await hall.waits()
    await hall.rooms.close()
    assert hall.handed == [()]
    await asyncio.sleep(0)

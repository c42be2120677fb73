"""An agent acts on works once it knows how to interpret their objects, and waits for nothing that does not come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schemas.agent import HelloAnswer
from schemas.codec import encode, subject_of
from schemas.keys import ObjectKey, PolicyKey
from services._rules.interpreter.configuration import CUSTOMIZATION
from services.agent.state import AgentState
from services.agent.work_consumer import WorkConsumer
from tests.support.widgets import SCRIPTS, customization, widget_work

RULES = customization(**SCRIPTS)
WORK = widget_work()


class Hub:
    """Takes subscriptions and requests, and answers nothing."""

    def on_lost(self, _: Any) -> None:
        """It is never lost."""

    async def listen(self, _: Any) -> tuple[str, Any]:
        """An inbox."""
        return "inbox", SimpleNamespace(unsubscribe=self._nothing)

    async def publish(self, *_: Any) -> None:
        """Take a request."""

    async def _nothing(self) -> None:
        """Nothing to give up."""


class Bench:
    """A follower, what it handed over, and messages for it as the server numbers them."""

    def __init__(self) -> None:
        self.answer = HelloAnswer(configured=(RULES.key,), as_of=9)
        self.state = AgentState(cluster="m1")
        self.told: list[ObjectKey | PolicyKey] = []
        hub: Any = Hub()
        self.follower = WorkConsumer(
            hub, self.state, self._greet, self.told.append, lambda event: self.told.append(event.key), lambda: True
        )
        self._number = 0

    async def _greet(self) -> HelloAnswer:
        return self.answer

    async def begin(self) -> None:
        """A new consumer."""
        self._number = 0
        assert await self.follower._begin() == ""

    async def hear(self, event: Any, left: int = 5) -> None:
        """The next fact, with as many to come."""
        self._number += 1
        seq = self.state.position + 1
        reply = f"$JS.ACK.FACTS.agent-m1.1.{seq}.{self._number}.0.{left}"
        await self._give(SimpleNamespace(subject=subject_of(event), data=encode(event), reply=reply, headers=None))

    async def idle(self) -> None:
        """A heartbeat: nothing is on its way."""
        await self._give(SimpleNamespace(subject="inbox", data=b"", reply="", headers={"Status": "100"}))

    async def _give(self, message: Any) -> None:
        await self.follower._answer(message)


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.begin()
    return made


async def test_works_wait_for_the_customizations_of_the_hub(bench: Bench) -> None:
    await bench.hear(WORK)
    await bench.hear(widget_work("other"))
    assert bench.told == []
    await bench.hear(RULES)
    assert bench.told == [RULES.key, WORK.key, widget_work("other").key]
    await bench.hear(widget_work("third"))
    assert bench.told[-1] == widget_work("third").key


async def test_last_message_ends_the_wait(bench: Bench) -> None:
    await bench.hear(WORK, left=0)
    assert bench.told == [WORK.key]


async def test_idle_consumer_ends_the_wait(bench: Bench) -> None:
    await bench.hear(WORK)
    await bench.idle()
    assert bench.told == [WORK.key]


async def test_the_wait_goes_on_with_the_next_consumer(bench: Bench) -> None:
    await bench.hear(WORK)
    bench.answer = HelloAnswer(configured=(RULES.key,), as_of=9, start=bench.state.position + 1)
    await bench.begin()
    assert bench.told == []
    await bench.hear(RULES)
    assert bench.told == [RULES.key, WORK.key]


@pytest.mark.parametrize("configured", [None, ()])
async def test_works_are_handed_over_without_customizations(configured: Any) -> None:
    made = Bench()
    made.answer = HelloAnswer(configured=configured)
    await made.begin()
    await made.hear(WORK)
    assert made.told == [WORK.key]


async def test_known_customizations_are_not_waited_for() -> None:
    made = Bench()
    made.state.configure(RULES, 3)
    made.answer = HelloAnswer(configured=(RULES.key,), as_of=9, start=4)
    await made.begin()
    await made.hear(WORK)
    assert made.told == [WORK.key]


async def test_known_customizations_are_waited_for_from_the_start() -> None:
    made = Bench()
    made.state.configure(RULES, 3)
    await made.begin()
    await made.hear(WORK)
    assert made.told == []


async def test_other_policies_are_ignored(bench: Bench) -> None:
    await bench.hear(RULES)
    other = PolicyKey("PropagationPolicy", "default", "p")
    await bench.hear(type(RULES)(key=other, uid="u", manifest=RULES.manifest))
    assert bench.told == [RULES.key]
    assert other not in bench.state.configured
    assert RULES.key.kind == CUSTOMIZATION

"""In a rush the agent does not look at its member all the time, and saves a large state more rarely."""

from __future__ import annotations

from typing import Any, cast

import pytest

from services._kit.clock import ManualClock
from services.agent import greeting
from services.agent.greeting import Greeter
from services.agent.state import AgentState
from services.agent.storage import LONGEST_PAUSE, PAUSE, pause_after


def greeter() -> Greeter:
    nobody = cast("Any", None)
    return Greeter(nobody, AgentState(cluster="m"), "agent-0", nobody, ManualClock(), lambda: None, lambda _: None)


def due_of(greeter: Greeter) -> float:
    assert greeter._timer is not None
    return greeter._timer.when()


async def test_every_change_puts_the_look_off_until_the_member_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "QUIET_SECONDS", 100.0)
    monkeypatch.setattr(greeting, "LONGEST_RESTLESS_SECONDS", 3600.0)
    agent = greeter()
    agent.something_changed()
    first = agent._timer
    agent.something_changed()
    assert first is not None
    assert first.cancelled()
    assert due_of(agent) >= first.when()
    assert not agent._early.is_set()
    cast("Any", agent._timer).cancel()


async def test_a_member_that_is_never_quiet_is_looked_at_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "QUIET_SECONDS", 100.0)
    monkeypatch.setattr(greeting, "LONGEST_RESTLESS_SECONDS", 50.0)
    agent = greeter()
    agent.something_changed()
    first = due_of(agent)
    for _ in range(3):
        agent.something_changed()
    assert due_of(agent) == pytest.approx(first, abs=1e-3)
    cast("Any", agent._timer).cancel()


def test_a_state_that_takes_long_to_save_is_saved_more_rarely() -> None:
    assert pause_after(0.001) == PAUSE
    assert PAUSE < pause_after(0.2) < pause_after(0.5) < LONGEST_PAUSE
    assert pause_after(60.0) == LONGEST_PAUSE

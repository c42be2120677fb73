"""Answers come beside decisions: keys are decided again when theirs are there, whatever becomes of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from services._kit.base.health import Health
from services._kit.base.metrics import KitMetrics
from services._kit.base.pacing import Backoff
from services._kit.interpretation.async_interpretation import BACKOFF, AsyncInterpretation, InterpretationRequest
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.configuration import CUSTOMIZATION
from services._rules.interpreter.result_cache import ResultPending
from tests.support import widgets

NAME = PolicyKey(CUSTOMIZATION, "", "widgets")


def widget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def customization(script: str, kind: str = "Widget") -> PolicyChanged:
    members = ("replicaResource", "componentResource", "replicaRevision")
    return structs.replace(widgets.customization(kind=kind, **dict.fromkeys(members, script)), key=NAME)


class Scripts:
    """Evaluates what an object says of itself; `gate` holds calls back."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.notice: Callable[[], None] = lambda: None
        self.called = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.problems: list[Exception] = []

    async def evaluate(self, operation: str, script: str, arguments: Sequence[Any]) -> Any:
        self.calls.append(f"{operation} {script} {arguments[1:]}")
        self.notice()
        self.called.set()
        await self.gate.wait()
        if self.problems:
            raise self.problems.pop(0)
        obj = arguments[0]
        if operation == "InterpretReplica":
            return {"replicas": obj["spec"].get("size", 0), "requirements": None}
        if operation == "InterpretComponent":
            return [{"name": "main", "replicas": 1}]
        return {**obj, "spec": {"size": arguments[1]}}

    async def close(self) -> None:
        return


class Ground:
    """What asks, and the keys that were marked."""

    def __init__(self, backoff: Backoff) -> None:
        self.scripts = Scripts()
        self.marked: asyncio.Queue[str] = asyncio.Queue()
        self.asking: AsyncInterpretation[str] = AsyncInterpretation(self._mark, Interpreters(self.scripts), backoff)  # type: ignore[arg-type] # all it needs
        self.interpreter = self.asking.interpreter
        assert self.asking.take(customization("s")) == {("example.io/v1", "Widget")}

    def _mark(self, keys: Any) -> None:
        for key in keys:
            self.marked.put_nowait(key)

    def asks(self, key: str, call: Any) -> None:
        with pytest.raises(ResultPending) as missing:
            call()
        self.asking.submit(InterpretationRequest(key, missing.value.questions))

    async def answered(self, key: str, call: Any) -> None:
        """Ask, and return once the key is marked."""
        self.asks(key, call)
        await self.until_marked(key)

    async def until_marked(self, key: str) -> None:
        async with asyncio.timeout(60):
            assert await self.marked.get() == key


@pytest.fixture
async def ground(request: pytest.FixtureRequest) -> Any:
    made = Ground(getattr(request, "param", BACKOFF))
    yield made
    await made.asking.close()


async def test_what_was_asked_is_found_when_the_key_is_decided_again(ground: Ground) -> None:
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=3)))
    assert ground.interpreter.interpret(Operation.REPLICA, widget(size=3)) == (3, None)
    await ground.answered("b", lambda: ground.interpreter.interpret(Operation.COMPONENT, widget()))
    assert ground.interpreter.interpret(Operation.COMPONENT, widget()) == [{"name": "main", "replicas": 1}]
    await ground.answered("c", lambda: ground.interpreter.interpret(Operation.REVISE, widget(size=1), 7))
    assert ground.interpreter.interpret(Operation.REVISE, widget(size=1), 7) == widget(size=7)


async def test_one_that_hangs_keeps_no_other_waiting(ground: Ground) -> None:
    ground.scripts.gate.clear()
    ground.asks("slow", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=1)))
    await ground.scripts.called.wait()
    ground.scripts.gate = asyncio.Event()
    ground.scripts.gate.set()
    await ground.answered("quick", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=2)))
    assert ground.asking.pending == 1


async def test_a_kind_of_which_many_hang_keeps_no_other_kind_waiting(ground: Ground) -> None:
    other = customization("s", "Gadget")
    ground.asking.take(structs.replace(other, key=PolicyKey(CUSTOMIZATION, "", "gadgets")))
    ground.scripts.gate.clear()
    for number in range(200):
        ground.asks(f"slow-{number}", partial(ground.interpreter.interpret, Operation.REPLICA, widget(size=number)))
    await ground.scripts.called.wait()
    ground.scripts.gate = asyncio.Event()
    ground.scripts.gate.set()
    await ground.answered(
        "quick", lambda: ground.interpreter.interpret(Operation.REPLICA, {**widget(size=2), "kind": "Gadget"})
    )
    assert ground.asking.pending == 200


async def test_answer_of_a_replaced_script_is_asked_for_again(ground: Ground) -> None:
    ground.scripts.gate.clear()
    ground.asks("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=1)))
    await ground.scripts.called.wait()
    ground.asking.take(customization("other"))
    ground.scripts.gate.set()
    await ground.until_marked("a")
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=1)))
    assert ground.interpreter.interpret(Operation.REPLICA, widget(size=1)) == (1, None)
    assert ground.scripts.calls == ["InterpretReplica s ()", "InterpretReplica other ()"]


async def test_nothing_is_asked_twice(ground: Ground) -> None:
    ground.scripts.gate.clear()
    for _ in range(3):
        ground.asks("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=1)))
        await asyncio.sleep(0)
    ground.scripts.gate.set()
    await ground.until_marked("a")
    await ground.until_marked("a")
    assert len(ground.scripts.calls) == 1


async def test_an_error_names_the_customization_and_stays(ground: Ground) -> None:
    ground.scripts.problems = [InterpretError("GetReplicas returned a nil, expected a number")]
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget()))
    with pytest.raises(InterpretError, match=r"^ResourceInterpreterCustomization widgets: GetReplicas returned a nil"):
        ground.interpreter.interpret(Operation.REPLICA, widget())


@pytest.mark.parametrize("ground", [Backoff(0.001, 60.0)], indirect=True)
async def test_what_may_have_an_answer_later_is_told_and_asked_again(ground: Ground) -> None:
    metrics = KitMetrics("detector")
    ground.asking.offer(Health(), metrics.reads)
    ground.scripts.problems = [InterpretLater("put aside"), InterpretLater("put aside")]
    for _ in range(2):
        await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=4)))
        with pytest.raises(InterpretLater, match="put aside"):
            ground.interpreter.interpret(Operation.REPLICA, widget(size=4))
        await ground.until_marked("a")
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=4)))
    assert ground.interpreter.interpret(Operation.REPLICA, widget(size=4)) == (4, None)
    name, labels = "fleetlog_interpreter_answers_total", {"component": "detector"}
    assert metrics.registry.get_sample_value(name, {**labels, "result": "later"}) == 2
    assert metrics.registry.get_sample_value(name, {**labels, "result": "answered"}) == 1


async def test_what_is_told_meanwhile_is_forgotten_with_the_lead(ground: Ground) -> None:
    ground.scripts.problems = [InterpretLater("put aside")]
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=4)))
    await ground.asking.pause()
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=4)))
    assert ground.interpreter.interpret(Operation.REPLICA, widget(size=4)) == (4, None)


async def test_object_waits_while_no_script_process_runs(
    ground: Ground,
) -> None:
    ground.scripts.problems = [WorkerUnavailable("no memory"), WorkerUnavailable("no memory")]
    health, metrics = Health(), KitMetrics("detector")
    ground.asking.offer(health, metrics.reads)
    seen: list[dict[str, str]] = []
    ground.scripts.notice = lambda: seen.append(health.reasons())
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget(size=4)))
    assert seen == [{}, {"interpreters": "no memory"}, {"interpreters": "no memory"}]
    assert health.ready
    assert len(ground.scripts.calls) == 3
    assert ground.interpreter.interpret(Operation.REPLICA, widget(size=4)) == (4, None)


async def test_a_bug_of_a_level_is_told_as_well(ground: Ground) -> None:
    ground.scripts.problems = [KeyError("x")]
    await ground.answered("a", lambda: ground.interpreter.interpret(Operation.REPLICA, widget()))
    with pytest.raises(InterpretLater, match="KeyError: 'x'"):
        ground.interpreter.interpret(Operation.REPLICA, widget())


async def test_a_removed_customization_leaves_what_is_built_in(ground: Ground) -> None:
    assert ground.asking.take(PolicyDeleted(key=NAME, uid="u")) == {("example.io/v1", "Widget")}
    assert not ground.asking.interpreter.hook_enabled("example.io/v1", "Widget", "InterpretReplica")

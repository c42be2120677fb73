"""Scripts that do not end are stopped, others go on, and repeat offenders are put aside."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from services._kit.interpretation.interpreter_levels import Interpreters, ScriptLevel
from services._kit.interpretation.lua import process
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.scripts.customizations import Customizations
from tests.support.closing import closing

GOOD = "function GetReplicas(obj) return obj.n end"
ENDLESS = "function GetReplicas() while true do pcall(function() while true do end end) end end"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_endless_script_is_stopped_and_later_calls_answered() -> None:
    clock = Clock()
    async with closing(LuaPool(1, seconds=0.1, strikes=1, pause=60, clock=clock)) as pool:
        calls = [pool.evaluate(Operation.REPLICA, ENDLESS, [{}])]
        calls += [pool.evaluate(Operation.REPLICA, GOOD, [{"n": n}]) for n in range(40)]
        first, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert "0.1 s of processor time" in str(first)
        assert [other["replicas"] for other in others if isinstance(other, dict)] == list(range(40))

        clock.now = 10
        with pytest.raises(InterpretError, match="stopped once and is not run for 60 s at a time"):
            await pool.evaluate(Operation.REPLICA, ENDLESS, [{}])
        clock.now = 60
        with pytest.raises(InterpretError, match="processor time"):
            await pool.evaluate(Operation.REPLICA, ENDLESS, [{}])
        assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 7}]))["replicas"] == 7


async def test_calls_waiting_for_a_suspended_script_are_answered() -> None:
    async with closing(LuaPool(1, seconds=0.1, strikes=2, pause=60)) as pool:
        calls = [pool.evaluate(Operation.REPLICA, ENDLESS, [{"n": n}]) for n in range(20)]
        answers = await asyncio.gather(
            *calls, pool.evaluate(Operation.REPLICA, GOOD, [{"n": 7}]), return_exceptions=True
        )
        stopped = [answer for answer in answers[:-1] if "processor time" in str(answer)]
        later = [answer for answer in answers[:-1] if isinstance(answer, InterpretLater)]
        assert (len(stopped), len(later)) == (2, 18)
        assert isinstance(answers[-1], dict)
        assert answers[-1]["replicas"] == 7
        # The same words for every call and every time.
        assert {str(answer) for answer in later} == {
            "the script was stopped 2 times and is not run for 60 s at a time; mend it"
        }


async def test_waiting_calls_fail_when_the_pool_closes() -> None:
    pool = LuaPool(1, seconds=5)
    call = asyncio.create_task(pool.evaluate(Operation.REPLICA, ENDLESS, [{}]))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(WorkerUnavailable):
        await call


async def test_a_process_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.sys, "executable", "/nowhere/python")
    pool = LuaPool(1)
    with pytest.raises(WorkerUnavailable, match="cannot be started"):
        await pool.evaluate(Operation.REPLICA, GOOD, [{}])
    await pool.close()


async def test_call_after_a_failed_process_start_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = LuaPool(1)
    with monkeypatch.context() as broken:
        broken.setattr(process.sys, "executable", "/nowhere/python")
        with pytest.raises(WorkerUnavailable):
            await pool.evaluate(Operation.REPLICA, GOOD, [{}])
    try:
        async with asyncio.timeout(60):
            assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 1}]))["replicas"] == 1
    finally:
        await pool.close()


async def test_what_has_no_json_form_fails_alone() -> None:
    async with closing(LuaPool(1)) as pool:
        first, second = await asyncio.gather(
            pool.evaluate(Operation.REPLICA, GOOD, [{"n": "\ud800"}]),
            pool.evaluate(Operation.REPLICA, GOOD, [{"n": 2}]),
            return_exceptions=True,
        )
        assert isinstance(first, InterpretError)
        assert "has no JSON form" in str(first)
        assert second == {"replicas": 2, "requirements": None}


async def test_a_result_too_large_to_hold_is_refused() -> None:
    double = "local s = 'xxxxxxxxxxxxxxxx' for i = 1, 17 do s = s .. s end"
    script = f"{double} function ReflectStatus() return {{ s, s, s, s, s }} end"
    async with closing(LuaPool(1, seconds=30)) as pool:
        with pytest.raises(InterpretError, match="larger than 8 MiB"):
            await pool.evaluate(Operation.STATUS, script, [{}])
        assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 1}]))["replicas"] == 1


async def test_crash_of_a_script_process_fails_only_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[process.LuaProcess] = []
    start = process.LuaProcess.start

    async def remembered(seconds: float, memory: int) -> process.LuaProcess:
        started.append(await start(seconds, memory))
        return started[-1]

    monkeypatch.setattr(process.LuaProcess, "start", staticmethod(remembered))
    async with closing(LuaPool(1, seconds=30)) as pool:
        assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 1}]))["replicas"] == 1
        for number, said in ((signal.SIGSEGV, r"crashed .*\(SIGSEGV\)"), (signal.SIGKILL, r"killed \(SIGKILL\)")):
            call = asyncio.create_task(pool.evaluate(Operation.REPLICA, ENDLESS, [{}]))
            await asyncio.sleep(0)
            os.kill(started[-1]._process.pid, number)
            with pytest.raises(InterpretError, match=said):
                await call
            assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 2}]))["replicas"] == 2


class Recorder:
    """Answers with what it was asked."""

    async def evaluate(self, operation: str, script: str, arguments: object) -> object:
        if operation == Operation.DEPENDENCY:
            return [{"apiVersion": "v1", "kind": "Secret", "name": script}]
        if operation == Operation.REPLICA:
            return {"replicas": 3, "requirements": {"priorityClassName": script}}
        return None if operation == Operation.COMPONENT else {"kind": "Deployment", "by": script}


def _level(kind: str, **scripts: str) -> ScriptLevel:
    spec = {
        "target": {"apiVersion": "apps/v1", "kind": kind},
        "customizations": {member: {"luaScript": script} for member, script in scripts.items()},
    }
    two = {
        "metadata": {"name": "z"},
        "spec": {**spec, "customizations": {"dependencyInterpretation": {"luaScript": "y"}}},
    }
    return ScriptLevel(Recorder(), Customizations([{"metadata": {"name": "a"}, "spec": spec}, two]))


async def test_the_strongest_level_that_offers_an_operation_answers() -> None:
    own = _level("Deployment", retention="own", dependencyInterpretation="x")
    bundle = _level("Deployment", retention="bundle", replicaResource="bundle", componentResource="bundle")
    levels = Interpreters(levels=[own, bundle])
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns"}, "spec": {"replicas": 2}}
    assert (await levels.interpret(Operation.RETAIN, obj, obj))["by"] == "own"
    for_quota = (3, {"priorityClassName": "bundle", "namespace": "ns"})
    assert await levels.interpret(Operation.REPLICA, obj, True) == for_quota
    assert await levels.interpret(Operation.REPLICA, obj) == (3, {"priorityClassName": "bundle"})
    assert await levels.interpret(Operation.COMPONENT, obj) == []
    assert [reference["name"] for reference in await levels.interpret(Operation.DEPENDENCY, obj)] == ["x", "y"]
    assert (await levels.interpret(Operation.REVISE, obj, 5))["spec"]["replicas"] == 5
    assert await levels.interpret(Operation.HEALTH, obj) is False
    assert levels.hook_enabled("apps/v1", "Deployment", Operation.COMPONENT)
    assert not levels.hook_enabled("apps/v1", "ReplicaSet", Operation.RETAIN)


async def test_the_error_of_a_level_is_final() -> None:
    class Broken(Recorder):
        async def evaluate(self, operation: str, script: str, arguments: object) -> object:
            raise InterpretError("broken")

    obj = {"apiVersion": "apps/v1", "kind": "Deployment"}
    spec = {"target": obj, "customizations": {"retention": {"luaScript": "own"}}}
    own = ScriptLevel(Broken(), Customizations([{"metadata": {"name": "a"}, "spec": spec}]))
    with pytest.raises(InterpretError, match="ResourceInterpreterCustomization a: broken"):
        await Interpreters(levels=[own, _level("Deployment", retention="bundle")]).interpret(Operation.RETAIN, obj, obj)


async def test_replaced_customizations_count_from_the_next_call_on() -> None:
    level = _level("Deployment", retention="old")
    levels = Interpreters(levels=[level])
    obj = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    assert not levels.hook_enabled("apps/v1", "ReplicaSet", Operation.RETAIN)
    spec = {"target": obj, "customizations": {"retention": {"luaScript": "new"}}}
    level.replace(Customizations([{"metadata": {"name": "a"}, "spec": spec}]))
    assert (await levels.interpret(Operation.RETAIN, obj, obj))["by"] == "new"


async def test_idle_process_ends_and_the_next_call_starts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[process.LuaProcess] = []
    ended = asyncio.Event()
    start, stop = process.LuaProcess.start, process.LuaProcess.stop

    async def counted(seconds: float, memory: int) -> process.LuaProcess:
        started.append(await start(seconds, memory))
        return started[-1]

    async def stopped(self: process.LuaProcess) -> None:
        await stop(self)
        ended.set()

    monkeypatch.setattr(process.LuaProcess, "start", staticmethod(counted))
    monkeypatch.setattr(process.LuaProcess, "stop", stopped)
    async with closing(LuaPool(1, idle=0.01)) as pool:
        assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 1}]))["replicas"] == 1
        await ended.wait()
        assert (await pool.evaluate(Operation.REPLICA, GOOD, [{"n": 2}]))["replicas"] == 2
        assert len(started) == 2

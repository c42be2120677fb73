"""Supervision: a failed long-running task is restarted, counted and makes its service unready; none ends silently."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.base.health import Health
from services._kit.base.log_errors import LogReplaced
from services._kit.concurrency import supervision
from services._kit.concurrency.supervision import Supervisor, spawn, supervise
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses of a test: short enough to wait for."""
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(supervision, "LONGEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(supervision, "STEADY_SECONDS", 0.03)


class Flaky:
    """Fails as often as it is told, then runs; `running` is set while it does."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.failures = list(failures)
        self.running = asyncio.Event()
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        if self.failures:
            failure = self.failures.pop(0)
            if failure is None:
                return
            raise failure
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running.clear()


@pytest.mark.parametrize("failure", [KeyError("clientKey"), RecursionError(), MemoryError(), None])
async def test_a_failed_task_runs_again_and_is_counted(failure):
    task = Flaky(failure, failure)
    async with Supervisor() as supervisor:
        supervise("watch:pods", task.run)
        await eventually(task.running.is_set)
        assert task.runs == 3
        assert supervisor.failures() == [(("watch",), 2.0)]
    assert not task.running.is_set()


async def test_a_service_is_unready_while_a_task_is_down():
    health, task = Health(), Flaky(ValueError("no JSON"))
    async with Supervisor(health):
        supervise("lane:member1", task.run)
        await eventually(lambda: not health.ready)
        assert "lane:member1" in health.reasons()["tasks"]
        assert "no JSON" in health.reasons()["tasks"]
        await eventually(lambda: health.ready)
        assert task.running.is_set()


async def test_cancellation_inside_a_task_does_not_end_it():
    async def cancelled_inside() -> None:
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    task = Flaky()
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        await (cancelled_inside() if runs == 1 else task.run())

    async with Supervisor():
        supervise("prober", run)
        await eventually(task.running.is_set)
        assert runs == 2


async def test_closing_ends_a_task_for_good():
    task = Flaky()
    async with Supervisor() as supervisor:
        handle = supervise("lane", task.run)
        await eventually(task.running.is_set)
        await handle.close()
        assert handle.done
        assert not task.running.is_set()
        assert supervisor.trouble() == ""


async def test_a_task_that_may_return_is_not_restarted():
    task = Flaky(None)
    async with Supervisor() as supervisor:
        handle = supervise("watch", task.run, returns=True)
        await eventually(lambda: handle.done)
        assert task.runs == 1
        assert supervisor.failures() == []


async def test_a_replaced_log_ends_the_service():
    task, health = Flaky(LogReplaced("another stream")), Health()
    other = Flaky()

    async def service() -> None:
        async with Supervisor(health):
            supervise("other", other.run)
            await eventually(other.running.is_set)
            supervise("follow", task.run)
            await asyncio.Event().wait()

    with pytest.raises(LogReplaced):
        await service()
    assert not other.running.is_set()


async def test_what_spawned_work_raises_is_counted_and_ends_nothing():
    async def fails() -> None:
        raise KeyError("items")

    task = Flaky()
    async with Supervisor() as supervisor:
        supervise("other", task.run)
        work = spawn("closing", fails())
        await work
        assert supervisor.failures() == [(("closing",), 1.0)]
        await eventually(task.running.is_set)


async def test_tasks_without_an_owner_are_kept_as_well():
    task = Flaky(KeyError("x"))
    handle = supervise("watch", task.run)
    await eventually(task.running.is_set)
    assert task.runs == 2
    await handle.close()

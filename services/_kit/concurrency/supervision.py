"""Owns the long-running tasks of a service: each is restarted with backoff, counted, and reported while it is down.

`supervise` keeps a coroutine function running until its handle is closed; `spawn` holds work that ends by itself. Both
belong to the Supervisor of the present context, which `serve` opens for every service, also where several share a
process. Outside of one (in a command, in a test) tasks are kept the same way, without metrics and readiness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

from services._kit.base.late_logger import LateLogger
from services._kit.base.log_errors import LogReplaced, Unreadable
from services._kit.concurrency.tasks import end

if TYPE_CHECKING:
    # Commands have no readiness and no metrics.
    from services._kit.base.health import Health
    from services._kit.base.metrics import ReadCollector

log = LateLogger("supervision")

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
STEADY_SECONDS: Final = 1.0
"""How long a restarted task runs before it counts as up, at least."""
FATAL: Final = (LogReplaced, Unreadable)
"""What ends the whole service instead of being retried: the log it read is gone, or has a hole that stays."""

Run = Callable[[], Coroutine[Any, Any, None]]

_current: ContextVar[Supervisor | None] = ContextVar("supervisor", default=None)
_unowned: WeakKeyDictionary[asyncio.AbstractEventLoop, Supervisor] = WeakKeyDictionary()


class Supervised:
    """A long-running task. `trouble` is the reason why it is down; empty while it runs."""

    def __init__(self, owner: Supervisor, name: str, run: Run, *, returns: bool) -> None:
        self.name = name
        self.trouble = ""
        self.restarts = 0
        self._owner = owner
        self._run = run
        self._returns = returns
        self._pause = FIRST_PAUSE_SECONDS
        self._steady: asyncio.TimerHandle | None = None
        self._task = owner.create(self._keep(), name)
        self._task.add_done_callback(self._ended)

    @property
    def done(self) -> bool:
        """Whether it ended for good: it was closed, it returned where it may, or a fatal error ended it."""
        return self._task.done()

    @property
    def task(self) -> asyncio.Task[None]:
        """The task itself, to wait for."""
        return self._task

    def cancel(self) -> None:
        """End it without waiting."""
        self._task.cancel()

    async def close(self) -> None:
        """End it and wait until it has ended."""
        await end(self._task)

    async def _keep(self) -> None:
        while True:
            try:
                await self._run()
                if self._returns:
                    return
                problem: Exception | None = None
                reason = "it ended by itself"
            except FATAL:
                raise
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                # Something it waited for was cancelled, not the task itself.
                problem, reason = None, f"what it waited for was cancelled: {error}"
            except Exception as error:  # noqa: BLE001 - whatever it is, others go on and it is started again
                problem, reason = error, f"{type(error).__name__}: {str(error)[:500]}"
            self._failed(reason, problem)
            await asyncio.sleep(self._pause)
            # Steady for as long as it was down, and for a moment at least.
            steady = max(STEADY_SECONDS, self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            self._steady = asyncio.get_running_loop().call_later(steady, self._up)

    def _failed(self, reason: str, problem: Exception | None) -> None:
        if self._steady is not None:
            self._steady.cancel()
            self._steady = None
        self.restarts += 1
        self._owner.count(self.name)
        self.trouble = reason
        log.error(
            "task_failed",
            task=self.name,
            reason=reason,
            restarts=self.restarts,
            retry_in_seconds=self._pause,
            exc_info=problem,
        )

    def _up(self) -> None:
        self._steady = None
        self._pause = FIRST_PAUSE_SECONDS
        self.trouble = ""

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._steady is not None:
            self._steady.cancel()
        self._owner.dropped(self)


class Supervisor:
    """The owner of all tasks of one service; an async context manager around its life.

    On exit every task is cancelled and awaited. A fatal error of a task cancels the block and is raised by it.
    """

    def __init__(self, health: Health | None = None, reads: ReadCollector | None = None) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._token: Token[Supervisor | None] | None = None
        self._supervised: set[Supervised] = set()
        self._spawned: set[asyncio.Task[Any]] = set()
        self._failures: dict[tuple[str, ...], float] = {}
        self._closing = False
        if health is not None:
            health.check("tasks", self.trouble)
        if reads is not None:
            reads.gauge("tasks", "Long-running tasks", lambda: len(self._supervised))
            reads.gauge("tasks_down", "Long-running tasks that failed and wait to be started again", self._down)
            reads.counter("task_failures", "Failures of tasks", lambda: sum(self._failures.values()))
            reads.table("fleetlog_task_failures_by_task", "Failures of tasks", ("task",), self.failures, "counter")

    async def __aenter__(self) -> Self:
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._token = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        if self._token is not None:
            _current.reset(self._token)
        await self.close()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as several:
            # The service ends by what ended it first, as if the block had raised it.
            raise several.exceptions[0] from None

    def create(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """A task of the group; only for this module's own use."""
        if self._group is not None:
            return self._group.create_task(work, name=name)
        return asyncio.get_running_loop().create_task(work, name=name)

    def supervise(self, name: str, run: Run, *, returns: bool = False) -> Supervised:
        """Keep `run` running; see the module's function of that name."""
        supervised = Supervised(self, name, run, returns=returns)
        self._supervised.add(supervised)
        return supervised

    def spawn(self, name: str, work: Awaitable[None]) -> asyncio.Task[None]:
        """Hold work that ends by itself; see the module's function of that name."""
        task: asyncio.Task[None] = self.create(self.contain(name, work), name)
        self._spawned.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._spawned.discard(task)
            if asyncio.iscoroutine(work):
                # Cancelled before its first step it was never begun.
                work.close()

        task.add_done_callback(ended)
        return task

    async def contain(self, name: str, work: Awaitable[None]) -> None:
        """Wait for work; what it raises is logged and counted, but for cancellation of this task and fatal errors."""
        try:
            await work
        except FATAL:
            raise
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            self._work_failed(name, f"what it waited for was cancelled: {error}", None)
        except Exception as error:  # noqa: BLE001 - whatever it is, others go on
            self._work_failed(name, f"{type(error).__name__}: {error}"[:500], error)

    def _work_failed(self, name: str, reason: str, problem: Exception | None) -> None:
        self.count(name)
        log.error("work_failed", task=name, reason=reason, exc_info=problem)

    def count(self, name: str) -> None:
        """Count one failure of a task; what follows a colon in its name is left out."""
        label = (name.partition(":")[0],)
        self._failures[label] = self._failures.get(label, 0.0) + 1

    def dropped(self, supervised: Supervised) -> None:
        """Forget a task that ended for good."""
        self._supervised.discard(supervised)

    def failures(self) -> list[tuple[tuple[str, ...], float]]:
        """Failures since the start, by task."""
        return list(self._failures.items())

    def _down(self) -> int:
        return sum(1 for supervised in self._supervised if supervised.trouble)

    def trouble(self) -> str:
        """Which tasks are down and why; empty when all run."""
        down = sorted((task.name, task.trouble) for task in self._supervised if task.trouble)
        text = "; ".join(f"{name} failed and is started again: {reason}" for name, reason in down[:3])
        return f"{text}; and {len(down) - 3} more" if len(down) > 3 else text

    async def close(self) -> None:
        """End every task and wait until they have ended."""
        await end(*(supervised.task for supervised in self._supervised), *self._spawned)


def owner() -> Supervisor:
    """The Supervisor of this context; outside of any, one that belongs to the event loop alone."""
    current = _current.get()
    if current is not None:
        return current
    return _unowned.setdefault(asyncio.get_running_loop(), Supervisor())


def supervise(name: str, run: Run, *, returns: bool = False) -> Supervised:
    """Keep a coroutine function running until the handle is closed or the service ends.

    When it raises, or returns although `returns` is false, that is logged and counted, the service is not ready, and
    it is called again after a pause (seconds: 0.1, doubled up to 5). `name` is for people and metrics; what
    distinguishes several of a kind follows a colon (`lane:member1`) and is left out of metrics.
    """
    return owner().supervise(name, run, returns=returns)


class Periodic:
    """Calls `work` when it is started, and again `period` seconds after each end, until it is stopped."""

    def __init__(self, name: str, period: float, work: Run) -> None:
        self._name = name
        self._period = period
        self._work = work
        self._task: Supervised | None = None

    def start(self) -> None:
        """Begin, unless it has begun already."""
        if self._task is None:
            self._task = supervise(self._name, self._run)

    async def stop(self) -> None:
        """End, also in the middle of the work."""
        task, self._task = self._task, None
        if task is not None:
            await task.close()

    async def _run(self) -> None:
        while True:
            await self._work()
            await asyncio.sleep(self._period)


def spawn(name: str, work: Awaitable[None]) -> asyncio.Task[None]:
    """Hold work that ends by itself until it has ended; what it raises is logged and counted.

    The task itself raises nothing but cancellation and fatal errors.
    """
    return owner().spawn(name, work)

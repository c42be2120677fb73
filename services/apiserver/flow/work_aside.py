"""Runs long work of one request in a thread beside the event loop, which goes on answering others meanwhile.

Both share one interpreter: a short switch interval lets the event loop take over within half a millisecond. Work that
is cancelled, as by the time limit of its request, is interrupted. It has to be pure Python on values of its request: a
call into C that runs long would keep the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from services.apiserver.core.metrics import ASIDE_ENDED, ASIDE_SECONDS
from services.apiserver.flow.fair_seats import FairSeats
from services.apiserver.flow.request_seats import take_seat

P = ParamSpec("P")
T = TypeVar("T")

HEAVY_BYTES: Final = 48 << 10
"""Bodies and objects of this size are worked on aside; most take a few milliseconds at this size."""
DEEPEST_CALLS: Final = 4000
"""Calls within each other: ten for each level of the deepest document."""
_SWITCH_SECONDS: Final = 0.0005
_IDLE_SECONDS: Final = 30.0
_UNCOLLECTED_SECONDS: Final = 40.0
_STACK_BYTES: Final = 32 << 20
_WAITING: Final = 16
_THREADS: Final = 2


class _Uncollected:
    """Puts garbage collection off while threads work: a collection of all they made would hold up the event loop.

    It is put off for a while only, however much there is to do.
    """

    def __init__(self) -> None:
        self._count = 0
        self._since = 0.0

    def __enter__(self) -> None:
        now = time.monotonic()
        if not self._count:
            self._since = now
        self._count += 1
        if now - self._since < _UNCOLLECTED_SECONDS:
            gc.disable()
        else:
            gc.enable()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count -= 1
        if not self._count:
            gc.enable()


_uncollected: Final = _Uncollected()


class Interrupted(BaseException):
    """Raised in work whose request does not wait for it any more; not an Exception, so that no rule catches it."""


class _Job:
    __slots__ = ("abandoned", "call", "context", "done", "error", "result", "thread")

    def __init__(self, call: Callable[[], Any], context: Context, done: Callable[[], object]) -> None:
        self.call, self.context, self.done = call, context, done
        self.result: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.thread = 0


class WorkAside:
    """Threads that are started when there is work; one user has one of them at most, others wait in a fair queue."""

    def __init__(self, heavy: int = HEAVY_BYTES) -> None:
        self.heavy = heavy
        self._seats = FairSeats("aside", _THREADS, 1, _WAITING, 3600.0)
        self._jobs: deque[_Job] = deque()
        self._change = threading.Condition()
        self._idle = 0
        self._closed = False

    async def run(self, user: str, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the work, which is done at once where the size of what it works on is small."""
        if size < self.heavy:
            return work(*args, **kwargs)
        began = time.perf_counter()
        await take_seat(self._seats, user)
        try:
            with _uncollected:
                return await self._run(lambda: work(*args, **kwargs))
        finally:
            self._seats.leave(user, 1)
            ASIDE_SECONDS.labels("thread").observe(time.perf_counter() - began)

    async def keep(self, user: str, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for work whose result stays for long: the garbage collector skips it from then on."""
        with _uncollected:
            result = await self.run(user, size, work, *args, **kwargs)
            if size >= self.heavy:
                gc.freeze()
        return result

    async def _run(self, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()
        job = _Job(call, copy_context(), lambda: loop.call_soon_threadsafe(finished.set))
        with self._change:
            self._jobs.append(job)
            if self._idle < len(self._jobs):
                self._start()
            self._change.notify()
        try:
            await finished.wait()
        except asyncio.CancelledError:
            self._abandon(job)
            # The seat stays taken until the thread is free.
            await asyncio.shield(finished.wait())
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _start(self) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        before = threading.stack_size(_STACK_BYTES)
        try:
            threading.Thread(target=self._work, name="aside", daemon=True).start()
        finally:
            threading.stack_size(before)

    def _abandon(self, job: _Job) -> None:
        ASIDE_ENDED.labels("thread").inc()
        with self._change:
            job.abandoned = True
            if job in self._jobs:
                self._jobs.remove(job)
                job.done()
            elif job.thread:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(job.thread), ctypes.py_object(Interrupted))

    def _work(self) -> None:
        """What a thread does until it has been idle for a while."""
        while True:
            with self._change:
                self._idle += 1
                try:
                    if not self._change.wait_for(lambda: self._jobs or self._closed, _IDLE_SECONDS) or self._closed:
                        return
                    job = self._jobs.popleft()
                finally:
                    self._idle -= 1
                job.thread = threading.get_ident()
            self._do(job)

    def _do(self, job: _Job) -> None:
        try:
            try:
                job.result = job.context.run(job.call)
            except BaseException as error:  # noqa: BLE001 - the request gets it
                job.error = error
            with self._change:
                job.thread = 0
        except Interrupted as error:
            # It came after the work had ended.
            job.error, job.thread = error, 0
        with contextlib.suppress(RuntimeError):
            # The loop may be closed by now.
            job.done()

    def close(self) -> None:
        """Let the threads end."""
        with self._change:
            self._closed = True
            self._change.notify_all()


def make_room_for_depth() -> None:
    """Let calls nest as deep as the deepest document asks for."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST_CALLS))

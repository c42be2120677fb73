"""One worker process of a pool: start, send calls, read answers, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Raw

from services._kit.interpretation.lua.messages import LENGTH, LuaAnswer, decode_answer, frame

# Wall clock; the worker itself counts processor time and is far stricter.
_LONGEST_SILENCE: Final = 60.0
_ROOT: Final = Path(__file__).resolve().parents[4]


class WorkerEnded(Exception):
    """A worker process ended in the middle of a call; the message is the exit status, for the author of the script."""


class WorkerUnavailable(Exception):
    """No worker process can be started here; the message is the reason."""


class LuaProcess:
    """A running worker."""

    def __init__(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._to = process.stdin
        self._from = process.stdout
        self._seconds = seconds

    @classmethod
    async def start(cls, seconds: float, memory: int) -> LuaProcess:
        """A worker that is ready for calls; raises WorkerUnavailable."""
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "services._kit.interpretation.lua.worker",
                str(seconds),
                str(memory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Dates of scripts are the same wherever they run.
                env={**os.environ, "TZ": "UTC", "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as problem:
            raise WorkerUnavailable(f"a process for interpreter scripts cannot be started: {problem}") from None
        worker = cls(process, seconds)
        try:
            async with asyncio.timeout(_LONGEST_SILENCE):
                await worker._from.readexactly(LENGTH)
        except (asyncio.IncompleteReadError, TimeoutError):
            await worker.stop()
            raise WorkerUnavailable(
                f"a process for interpreter scripts ended with {process.returncode} before it was ready; "
                "its standard error says why"
            ) from None
        except asyncio.CancelledError:
            await worker.stop()
            raise
        return worker

    async def send(self, calls: Sequence[Raw]) -> None:
        """Hand over calls, each as messages.encoded wrote it; one that ended shows when the answers are read."""
        try:
            self._to.write(frame(calls))
            await self._to.drain()
        except (BrokenPipeError, ConnectionResetError):
            return

    async def answer(self) -> LuaAnswer:
        """The next answer; raises WorkerEnded, after which the process is gone."""
        try:
            async with asyncio.timeout(_LONGEST_SILENCE):
                head = await self._from.readexactly(LENGTH)
                return decode_answer(await self._from.readexactly(int.from_bytes(head, "big")))
        except (asyncio.IncompleteReadError, ConnectionResetError, TimeoutError) as problem:
            if isinstance(problem, TimeoutError):
                self._kill()
            await self._process.wait()
            self._to.close()
            raise WorkerEnded(self._end()) from None

    def _end(self) -> str:
        code = self._process.returncode
        if code == -signal.SIGPROF:
            return f"the script used more than {self._seconds:g} s of processor time and was stopped"
        if code == -signal.SIGSEGV:
            return "the script crashed the process that ran it (SIGSEGV); find the call that does so and do without it"
        if code == -signal.SIGKILL:
            return "the process that ran the script was killed (SIGKILL), as it is where a machine lacks memory"
        return f"the process that ran the script ended with {code}; its standard error says why"

    async def stop(self) -> None:
        """End the process and wait for its end."""
        self._kill()
        await self._process.wait()
        self._to.close()

    def _kill(self) -> None:
        # Not through the process object: it would collect a child that just ended before asyncio can.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

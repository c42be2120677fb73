"""The processes that turn large texts into others, so that neither their time nor their faults reach the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from services.apiserver.core.metrics import ASIDE_ENDED, ASIDE_SECONDS
from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.fair_seats import FairSeats
from services.apiserver.flow.request_seats import take_seat

_ROOT: Final = Path(__file__).resolve().parents[3]
_MODULE: Final = "services.apiserver.http.text_worker"
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
_WAITING: Final = 16
_IDLE_SECONDS: Final = 60.0

FROM_YAML: Final = "from-yaml"
FROM_PROTOBUF: Final = "from-protobuf"
TO_YAML: Final = "to-yaml"
"""Tasks; what follows a blank behind FROM_PROTOBUF names the type."""

_REQUEST: Final = struct.Struct(">HI")
_ANSWER: Final = struct.Struct(">BI")
REQUEST_SIZE: Final = _REQUEST.size


class Refusal(msgspec.Struct):
    """An ApiError on its way between processes."""

    code: int
    reason: str
    message: str


def request(task: str, body: bytes) -> bytes:
    """The bytes that ask for a task."""
    name = task.encode()
    return _REQUEST.pack(len(name), len(body)) + name + body


def request_sizes(raw: bytes) -> tuple[int, int]:
    """The sizes of the name of a task and of its text."""
    name, body = _REQUEST.unpack(raw)
    return int(name), int(body)


def answered(body: bytes, *, done: bool) -> bytes:
    """The bytes of an answer."""
    return _ANSWER.pack(done, len(body)) + body


class TextWorkers:
    """Starts at most `most` processes, when they are needed; one user has half of them at most."""

    def __init__(self, most: int = 2) -> None:
        self._seats = FairSeats("workers", most, max(1, most // 2), _WAITING, 3600.0)
        self._free: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._retire: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, user: str, task: str, body: bytes) -> bytes:
        """What the task makes of a text; raises ApiError. Cancellation ends the process that works on it."""
        began = time.perf_counter()
        await take_seat(self._seats, user)
        try:
            return await self._run(task, body)
        finally:
            self._seats.leave(user, 1)
            ASIDE_SECONDS.labels("process").observe(time.perf_counter() - began)

    async def _run(self, task: str, body: bytes) -> bytes:
        process = self._alive() or await self._start()
        healthy = False
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(request(task, body))
            await process.stdin.drain()
            done, size = _ANSWER.unpack(await process.stdout.readexactly(_ANSWER.size))
            answer = await process.stdout.readexactly(size)
            healthy = True
        except (OSError, asyncio.IncompleteReadError):
            text = "Internal error occurred: the process that worked on this request ended; try again"
            raise ApiError(500, "InternalError", text) from None
        finally:
            if healthy and not self._closed:
                self._free.append(process)
                self._watch_idle()
            else:
                ASIDE_ENDED.labels("process").inc()
                self._kill(process)
        if done:
            return answer
        found = msgspec.json.decode(answer, type=Refusal)
        raise ApiError(found.code, found.reason, found.message)

    def _alive(self) -> asyncio.subprocess.Process | None:
        """A process that has nothing to do."""
        while self._free:
            process = self._free.pop()
            if process.returncode is None:
                return process
            self._all.discard(process)
        return None

    async def _start(self) -> asyncio.subprocess.Process:
        # Of the environment of the server only what finds the interpreter: it holds credentials.
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ApiError(503, "ServiceUnavailable", f"no process can be started: {error}") from None
        self._all.add(process)
        return process

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _watch_idle(self) -> None:
        if self._retire is not None:
            self._retire.cancel()
        self._retire = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_free)

    def _end_free(self) -> None:
        while self._free:
            self._kill(self._free.pop())

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        if self._retire is not None:
            self._retire.cancel()
        ended = list(self._all)
        self._free.clear()
        for process in ended:
            self._kill(process)
        for process in ended:
            await process.wait()

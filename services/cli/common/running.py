"""Runs the work of a command: errors become one sentence and an exit code, long waits say what they wait for."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, NoReturn

from services._kit.concurrency.tasks import child, end
from services.cli.common.terminal_text import harmless, strong

SILENT_SECONDS: Final = 2.0
LONGEST_SILENCE: Final = 10.0
INTERRUPTED: Final = 130
TERMINATED: Final = 143
_CLEARED: Final = "\r\x1b[K"
"""To the beginning of a terminal's line, which is emptied."""


_OPENINGS: Final = {"error:": "red", "Error from server": "red", "Unable to connect": "red", "warning:": "yellow"}


class Failed(Exception):
    """The command cannot do what was asked; the message says why and what to do."""


class JoinRefused(Exception):
    """The cluster cannot be joined; the message says why and what to do."""


class NotReady(Exception):
    """Something did not become ready in time; the message names it and where its log is."""


def say(text: str) -> None:
    """Write to stderr as it is; a terminal that is gone does not matter."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def complain(message: str) -> None:
    """Write one line to stderr; on a terminal its first words stand out where they announce an error or a warning."""
    message = harmless(message)
    for opening, colour in _OPENINGS.items():
        if message.startswith(opening):
            message = strong(opening, sys.stderr, colour) + message.removeprefix(opening)
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def run(command: Callable[[], Coroutine[Any, Any, int | None] | int | None]) -> NoReturn:
    """Run a command, and the coroutine that it returns, and end the process with its code.

    An error ends it with 1, Ctrl-C with 130, SIGTERM with 143.
    """
    try:
        work = command()
        code = asyncio.run(work) if isinstance(work, Coroutine) else work
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise SystemExit(TERMINATED) from None
    except BrokenPipeError:
        # The reader of our output has left (head, less): nothing more to say, not even while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(0) from None
    except Exception as error:  # the border of the process: known errors become a sentence
        message = explain(error)
        if message is None:
            raise
        complain(message)
        raise SystemExit(1) from None
    raise SystemExit(code or 0)


def explain(error: BaseException) -> str | None:
    """An error as kubectl prints it; None for an unknown one."""
    from services._kit.base.log_errors import LogError
    from services._kit.kube.client import ApiError, Unreachable

    if isinstance(error, ApiError):
        return f"Error from server ({error.reason or error.status}): {error.message or error}"
    if isinstance(error, Unreachable):
        return f"Unable to connect to the server: {error}"
    if isinstance(error, Failed | JoinRefused | NotReady | LogError | OSError | ValueError):
        return f"error: {error}"
    return None


@asynccontextmanager
async def reporting(report: Callable[[float], None]) -> AsyncIterator[None]:
    """Call `report` with the seconds that have passed, first after two seconds, then ever less often."""

    async def repeat() -> None:
        began = time.monotonic()
        pause = SILENT_SECONDS
        while True:
            await asyncio.sleep(pause)
            report(time.monotonic() - began)
            pause = min(pause * 2, LONGEST_SILENCE)

    task = child(repeat())
    try:
        yield
    finally:
        await end(task)


def patience(what: str) -> AbstractAsyncContextManager[None]:
    """Name on stderr what is going on when it takes more than two seconds; on a terminal the line goes at the end."""
    if sys.stderr.isatty():
        return _shown_line(what)
    return reporting(lambda seconds: complain(f"{what} … ({seconds:.0f} s)"))


@asynccontextmanager
async def _shown_line(what: str) -> AsyncIterator[None]:
    began = time.monotonic()

    async def repeat() -> None:
        await asyncio.sleep(SILENT_SECONDS)
        while True:
            say(f"{_CLEARED}{what} … {time.monotonic() - began:.0f} s")
            await asyncio.sleep(1.0)

    task = child(repeat())
    try:
        yield
    finally:
        await end(task)
        if time.monotonic() - began >= SILENT_SECONDS:
            say(_CLEARED)

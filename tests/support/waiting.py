"""Waits for what a test expects, by looking again and again; a failure says what was seen last and after how long.

Who waits for a process gives its `end`: a wait for what only that process can bring about is over when it has ended.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from services._kit.base.log_errors import Ambiguous

PATIENCE = 60.0
"""Seconds until something has to be so; half of what pytest gives a test, so that a failure says what was missing."""
End = Callable[[], str]
"""How a process has ended; empty while it runs."""
_LONGEST_PAUSE = 0.3
_LOOK_PAUSES = 0.005, 0.05
"""Between two looks that may cost something: the first pause, and the longest."""
_TURNS: Final = 2000
"""Of a loop: what is read moves on within a few of them."""
_LAST_WORDS: Final = 2000
_SHOWN: Final = 500
_HERE: Final = Path(__file__).parents[2]


class NotYet(AssertionError):
    """Raised by a look: what it saw instead."""


_UNSEEN: Final = (NotYet, Ambiguous)
"""A look that saw nothing: a log that gives no answer in time is asked again, like any other."""


class Process(Protocol):
    """What is asked of `subprocess.Popen` here."""

    def poll(self) -> int | None:
        """The exit code, None while it runs."""


def end_of(process: Process, words: Path | Callable[[], str] | None = None) -> End:
    """How a process has ended: its exit code, and its last words where a file or a function has them."""

    def told() -> str:
        code = process.poll()
        if code is None:
            return ""
        said = ""
        if isinstance(words, Path):
            said = words.read_text(errors="replace") if words.exists() else ""
        elif words is not None:
            said = words()
        said = said[-_LAST_WORDS:].strip()
        return f"its process has ended with exit code {code}" + (f"; its last words:\n{said}" if said else "")

    return told


class Patience:
    """How long one wait may last; `why_over` is asked before each look and says why that look is the last one."""

    def __init__(
        self, seconds: float = PATIENCE, end: End | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._end = end
        self._clock = clock
        self._began = clock()

    def why_over(self) -> str:
        """Why it makes no sense to go on, empty while it does."""
        taken = self._clock() - self._began
        if self._end is not None and (told := self._end()):
            return f"after {taken:.1f} s {told}"
        return f"not within {self._seconds:g} s" if taken > self._seconds else ""


def explained(look: Callable[[], object]) -> tuple[object, str]:
    """Look once more; the answer, and which values led to it: what the function called was answered, and its names."""
    code = getattr(look, "__code__", None)
    found: dict[str, object] = {}

    def note(frame: FrameType, event: str, value: object) -> None:
        if event != "return" or code is None:
            return
        if frame.f_code is code:
            found.update({name: each for name, each in frame.f_locals.items() if not callable(each)})
        elif frame.f_back is not None and frame.f_back.f_code is code and not frame.f_code.co_name.startswith("<"):
            found[f"{frame.f_code.co_name}()"] = value

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        answer = look()
    finally:
        sys.setprofile(before)
    told = "; ".join(f"{name} was {_short(value)}" for name, value in found.items())
    return answer, f"{_short(answer)}{f', where {told}' if told else ''}"


def place_of(look: Callable[[], object]) -> str:
    """Where the function that looks is written, for a wait without a name."""
    code = getattr(look, "__code__", None)
    if code is None:
        return repr(look)
    path = Path(code.co_filename)
    return f"{path.relative_to(_HERE) if path.is_relative_to(_HERE) else path}:{code.co_firstlineno}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


async def eventually(
    look: Callable[[], Any], what: str = "", *, seconds: float = PATIENCE, end: End | None = None
) -> Any:
    """The first true value that a function, or a coroutine function, answers."""
    patience = Patience(seconds, end, asyncio.get_running_loop().time)
    pause, longest = _LOOK_PAUSES
    while True:
        over = patience.why_over()
        try:
            value, seen = explained(look) if over and not inspect.iscoroutinefunction(look) else (look(), "")
            if inspect.isawaitable(value):
                value = await value
                seen = _short(value)
            if value:
                return value
        except _UNSEEN as error:
            value, seen = None, str(error)
        assert not over, f"{what or place_of(look)}: {over}; last seen: {seen or _short(value)}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, longest)


async def comes_to(
    what: str, look: Callable[[], Awaitable[object]], wanted: object = True, *, end: End | None = None
) -> None:
    """Wait until `look`, which may be costly, answers `wanted`; fails with what was seen last."""
    patience = Patience(end=end, clock=asyncio.get_running_loop().time)
    pause = 0.02
    over = patience.why_over()
    seen: object
    while True:
        try:
            if (seen := await look()) == wanted:
                return
        except _UNSEEN as error:
            seen = error
        assert not over, f"{what}: wanted {wanted!r}, last seen {seen!r} ({over})"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        over = patience.why_over()


async def stands_still(count: Callable[[], int], what: str) -> int:
    """Wait until a count has begun and then not changed while the loop, in which all that counts runs, turned often."""
    patience = Patience(clock=asyncio.get_running_loop().time)
    seen = turns = 0
    while turns < _TURNS:
        over = patience.why_over()
        await asyncio.sleep(0)
        before, seen = seen, count()
        turns = turns + 1 if seen and seen == before else 0
        assert not over, f"{what}: {over}; last seen: {seen}"
    return seen

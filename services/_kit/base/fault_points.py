"""Fault injection points at which a process kills itself on request of a test; otherwise one lookup without effect.

A test names a directory in the setting `fault_points` and writes `<point> <n>` into the file of a service there: the
n-th time that the service comes to this point it removes the file, so that its successor lives, and is gone. With
`<point> <n> <text>` only those times count in which what is requested contains the text.
"""

from __future__ import annotations

import os
import signal
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

Point = Literal["before_append", "after_append", "before_act", "after_act"]
"""Around storing events in the log; around a request to a cluster or to the control plane."""


class _Armed:
    """The file of one service and how often its point was reached."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._order = ""
        self._reached = 0

    def reach(self, point: Point, what: str) -> None:
        try:
            order = self._file.read_text()
        except FileNotFoundError:
            return
        if order != self._order:
            self._order, self._reached = order, 0
        wanted, _, rest = order.partition(" ")
        count, _, part = rest.partition(" ")
        if wanted != point or part not in what:
            return
        self._reached += 1
        if self._reached >= int(count):
            self._file.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)


_armed: ContextVar[_Armed | None] = ContextVar("armed", default=None)


def arm(directory: str, service: str) -> None:
    """Look into this directory from now on, in this context and in tasks that it starts; an empty name disarms.

    A process that runs several services arms each in its own context.
    """
    _armed.set(_Armed(Path(directory) / service) if directory else None)


def reach(point: Point, what: str = "") -> None:
    """Come to a point with a request (`what`); does not return where a test wants the process to end."""
    armed = _armed.get()
    if armed is not None:
        armed.reach(point, what)

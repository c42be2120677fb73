"""Ends a child when its supervisor has ended, however that ended.

Linux sends the signal itself. Elsewhere a thread waits at a pipe that only the supervisor holds open; an external
program has no such thread and is stopped by the next `fleetlog up` or `fleetlog stop`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


class Leash:
    """Made by the supervisor; its children call `hold` right after the fork."""

    def __init__(self) -> None:
        self._supervisor = os.getpid()
        self._control: Callable[..., Any] | None = _prctl()
        self._read, self._write = (-1, -1) if self._control is not None else os.pipe()

    def hold(self) -> None:
        """End this child with SIGTERM once the supervisor has ended; at once where that is so already."""
        if self._control is not None:
            self._control(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        else:
            os.close(self._write)
            threading.Thread(target=self._wait, name="supervisor", daemon=True).start()
        if os.getppid() != self._supervisor:
            os._exit(1)

    def hold_program(self) -> None:
        """The same for a child that becomes another program; without effect where only a thread could notice."""
        if self._control is not None:
            self._control(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != self._supervisor:
                os._exit(1)

    def _wait(self) -> None:
        with suppress(OSError):
            os.read(self._read, 1)
        os.kill(os.getpid(), signal.SIGTERM)


def _prctl() -> Callable[..., Any] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        control: Callable[..., Any] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return control

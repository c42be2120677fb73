"""Stops the installation of a directory, whether its supervisor runs or has left its processes behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from services.cli.common.installation_search import absence
from services.cli.common.layout import Layout
from services.cli.common.running import Failed
from services.cli.supervision import leftovers
from services.cli.supervision.leftovers import PROGRESS_SECONDS
from services.cli.supervision.lock import STOP, UP, AlreadyRunning, Holder, Lock
from services.cli.supervision.process_identity import Running, runs
from services.cli.supervision.process_table import Roll

Tell = Callable[[str], None]

_PAUSE: Final = 0.05


def stop_installation(layout: Layout, seconds: float, tell: Tell) -> str:
    """Stop what runs in a directory and wait until it has ended; what was done, in one sentence.

    The supervisor has `seconds` to stop its processes; then it is killed, and they are stopped one by one. Raises
    Failed where there is no installation, or where it cannot be stopped.
    """
    if not layout.state.is_file():
        raise Failed(f"{absence(layout.directory)}; name its directory with --dir")
    lock = Lock(layout.lock, STOP)
    killed = False
    while True:
        try:
            with lock:
                count = stop_leftovers(layout, lock, tell)
        except AlreadyRunning as error:
            holder = lock.holder()
            if holder is None or not runs(holder.running):
                _orphans_of_unknown(layout, tell)
                continue
            if holder.work not in (UP, STOP):
                raise Failed(str(error)) from None
            killed = _end_supervisor(layout, holder, seconds, tell) or killed
            if not killed and not Roll(layout.roll).left():
                return f"stopped the installation in {layout.directory}; its data stays"
            continue
        if killed and not count:
            return f"stopped the installation in {layout.directory}; its data stays"
        if count:
            return f"stopped {_counted(count)} of the installation in {layout.directory}; its data stays"
        return f"no installation runs in {layout.directory}"


def stop_leftovers(layout: Layout, lock: Lock, tell: Tell) -> int:
    """Stop what an ended supervisor has left running; how many processes that were. Raises Unstoppable."""
    roll = Roll(layout.roll)
    left = roll.left()
    if left:
        them = "it" if len(left) == 1 else "them"
        former = lock.former
        who = f" (process {former.running.pid}, since {former.since})" if former is not None else ""
        tell(f"found {_counted(len(left))} of an installation whose supervisor{who} is gone; stopping {them} …")
        leftovers.stop(left, lambda text: tell(f"  {text}"))
    for path in layout.lock.parent.glob("*.pid"):
        path.unlink(missing_ok=True)
    roll.clear()
    return len(left)


def _counted(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _end_supervisor(layout: Layout, holder: Holder, seconds: float, tell: Tell) -> bool:
    """Ask the supervisor to stop and wait until it has ended; whether it had to be killed."""
    supervisor = holder.running
    if holder.work == UP:
        tell(f"stopping the installation of process {supervisor.pid}, which runs since {holder.since} …")
        _send(supervisor, signal.SIGTERM)
        # One that stands in the background of a terminal (Ctrl-Z) hears of it when it continues.
        _send(supervisor, signal.SIGCONT)
    if _wait(layout, supervisor, seconds, tell):
        return False
    tell(f"process {supervisor.pid} did not end within {seconds:g} s and is killed")
    _send(supervisor, signal.SIGKILL)
    if not _wait(layout, supervisor, leftovers.KILLED_SECONDS, tell):
        raise Failed(f"process {supervisor.pid} does not end, not even when it is killed")
    return True


def _wait(layout: Layout, supervisor: Running, seconds: float, tell: Tell) -> bool:
    """Whether the supervisor ended in time; says meanwhile what still runs."""
    began = told = time.monotonic()
    while runs(supervisor):
        now = time.monotonic()
        if now - began > seconds:
            return False
        if now - told >= PROGRESS_SECONDS:
            told = now
            left = leftovers.names(Roll(layout.roll).left()) or "the supervisor"
            tell(f"  waiting for {left} … ({now - began:.0f} s)")
        time.sleep(_PAUSE)
    return True


def _send(process: Running, number: signal.Signals) -> None:
    if not runs(process):
        return
    try:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
    except PermissionError:
        raise Failed(f"process {process.pid} belongs to another user; stop it as that user, or as root") from None


def _orphans_of_unknown(layout: Layout, tell: Tell) -> None:
    """Stop what holds the lock without being its supervisor; raises Failed where nothing of it is known."""
    left = Roll(layout.roll).left()
    if not left:
        time.sleep(_PAUSE)
        try:
            with Lock(layout.lock, STOP):
                return
        except AlreadyRunning:
            raise Failed(
                f"a process that is not known here holds {layout.lock}; `fuser {layout.lock}` names it, end it"
            ) from None
    leftovers.stop(left, tell)

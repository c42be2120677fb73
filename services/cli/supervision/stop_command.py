"""Stops the installation of a directory, whether its supervisor runs or has left its processes behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from services.cli.common.installation_search import absence
from services.cli.common.layout import Layout
from services.cli.common.running import Failed
from services.cli.supervision.lock import STOP, UP, AlreadyRunning, Holder, Lock
from services.cli.supervision.process_identity import Entry, Roll, Running, runs

Report = Callable[[str], None]

GRACE_SECONDS: Final = 15.0
"""How long the processes of one rank have to end by themselves."""
KILLED_SECONDS: Final = 10.0
"""How long the kernel has to end those that were killed."""
PROGRESS_SECONDS: Final = 2.0
_PAUSE: Final = 0.05


def stop_installation(layout: Layout, seconds: float, report: Report) -> str:
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
                count = stop_leftovers(layout, lock, report)
        except AlreadyRunning as error:
            holder = lock.holder()
            if holder is None or not runs(holder.running):
                _orphans_of_unknown(layout, report)
                continue
            if holder.work not in (UP, STOP):
                raise Failed(str(error)) from None
            killed = _end_supervisor(layout, holder, seconds, report) or killed
            if not killed and not Roll(layout.roll).left():
                return f"stopped the installation in {layout.directory}; its data stays"
            continue
        if killed and not count:
            return f"stopped the installation in {layout.directory}; its data stays"
        if count:
            return f"stopped {_counted(count)} of the installation in {layout.directory}; its data stays"
        return f"no installation runs in {layout.directory}"


def stop_leftovers(layout: Layout, lock: Lock, report: Report) -> int:
    """Stop what an ended supervisor has left running; how many processes that were. Raises Failed."""
    roll = Roll(layout.roll)
    left = roll.left()
    if left:
        them = "it" if len(left) == 1 else "them"
        former = lock.former
        who = f" (process {former.running.pid}, since {former.since})" if former is not None else ""
        report(f"found {_counted(len(left))} of an installation whose supervisor{who} is gone; stopping {them} …")
        stop(left, lambda text: report(f"  {text}"))
    for path in layout.lock.parent.glob("*.pid"):
        path.unlink(missing_ok=True)
    roll.clear()
    return len(left)


def _counted(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _end_supervisor(layout: Layout, holder: Holder, seconds: float, report: Report) -> bool:
    """Ask the supervisor to stop and wait until it has ended; whether it had to be killed."""
    supervisor = holder.running

    def left() -> str:
        return (names(Roll(layout.roll).left()) or "the supervisor") if runs(supervisor) else ""

    if holder.work == UP:
        report(f"stopping the installation of process {supervisor.pid}, which runs since {holder.since} …")
        _send(supervisor, signal.SIGTERM)
    if _ended(left, seconds, lambda text: report(f"  {text}")):
        return False
    report(f"process {supervisor.pid} did not end within {seconds:g} s and is killed")
    _send(supervisor, signal.SIGKILL)
    if not _ended(left, KILLED_SECONDS, lambda text: report(f"  {text}")):
        raise Failed(f"process {supervisor.pid} does not end, not even when it is killed")
    return True


def stop(entries: Sequence[Entry], report: Report, grace: float = GRACE_SECONDS) -> None:
    """Ask processes to end, rank by rank, and kill those that do not within `grace` seconds; raises Failed."""

    def left() -> str:
        return names([entry for entry in ranked if runs(entry.running)])

    for rank in sorted({entry.rank for entry in entries}, reverse=True):
        ranked = [entry for entry in entries if entry.rank == rank]
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILLED_SECONDS)):
            for entry in ranked:
                _send(entry.running, number, f"{entry.name} (process {entry.running.pid})")
            if _ended(left, seconds, report):
                break
            if number is signal.SIGTERM:
                report(f"killing what did not end within {grace:g} s: {left()}")
        else:
            raise Failed(f"these processes do not end, not even when they are killed: {left()}")


def names(entries: Sequence[Entry]) -> str:
    """Processes as a text: name and id of each."""
    return ", ".join(f"{entry.name} (process {entry.running.pid})" for entry in entries)


def _ended(left: Callable[[], str], seconds: float, report: Report) -> bool:
    """Whether `left`, which names the processes that run, becomes empty in time; reports them meanwhile."""
    began = reported = time.monotonic()
    while running := left():
        now = time.monotonic()
        if now - began > seconds:
            return False
        if now - reported >= PROGRESS_SECONDS:
            reported = now
            report(f"waiting for {running} … ({now - began:.0f} s)")
        time.sleep(_PAUSE)
    return True


def _send(process: Running, number: signal.Signals, name: str = "") -> None:
    if not runs(process):
        return
    try:
        os.kill(process.pid, number)
        # One that was stopped (SIGSTOP, Ctrl-Z) acts on nothing but SIGKILL before it continues.
        os.kill(process.pid, signal.SIGCONT)
    except ProcessLookupError:
        return
    except PermissionError:
        name = name or f"process {process.pid}"
        raise Failed(f"{name} belongs to another user; stop it as that user, or as root") from None


def _orphans_of_unknown(layout: Layout, report: Report) -> None:
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
    stop(left, report)

"""Stops processes that this process did not start: those whose supervisor has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from services.cli.supervision.process_identity import runs
from services.cli.supervision.process_table import Entry

GRACE_SECONDS: Final = 15.0
"""How long the processes of one rank have to end by themselves."""
KILLED_SECONDS: Final = 10.0
"""How long the kernel has to end those that were killed."""
PROGRESS_SECONDS: Final = 2.0
_PAUSE: Final = 0.05


class Unstoppable(OSError):
    """Processes do not end, or may not be stopped by this user; the message names them."""


def stop(entries: Sequence[Entry], tell: Callable[[str], None], grace: float = GRACE_SECONDS) -> None:
    """Ask processes to end, rank by rank, and kill those that do not within `grace` seconds; raises Unstoppable."""
    for rank in sorted({entry.rank for entry in entries}, reverse=True):
        ranked = [entry for entry in entries if entry.rank == rank]
        _send(ranked, signal.SIGTERM)
        left = _wait(ranked, grace, tell)
        if left:
            tell(f"killing what did not end within {grace:g} s: {names(left)}")
            _send(left, signal.SIGKILL)
            left = _wait(left, KILLED_SECONDS, tell)
        if left:
            raise Unstoppable(f"these processes do not end, not even when they are killed: {names(left)}")


def names(entries: Sequence[Entry]) -> str:
    """Processes as a text: name and id of each."""
    return ", ".join(f"{entry.name} (process {entry.running.pid})" for entry in entries)


def _send(entries: Sequence[Entry], number: signal.Signals) -> None:
    for entry in entries:
        if not runs(entry.running):
            continue
        try:
            os.kill(entry.running.pid, number)
            # One that was stopped (SIGSTOP) acts on nothing but SIGKILL before it continues.
            with suppress(ProcessLookupError):
                os.kill(entry.running.pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
        except PermissionError:
            raise Unstoppable(
                f"{entry.name} (process {entry.running.pid}) belongs to another user; stop it as that user, or as root"
            ) from None


def _wait(entries: Sequence[Entry], seconds: float, tell: Callable[[str], None]) -> list[Entry]:
    """Those that still run when time is up."""
    began = time.monotonic()
    told = began
    left = [entry for entry in entries if runs(entry.running)]
    while left and time.monotonic() - began < seconds:
        time.sleep(_PAUSE)
        left = [entry for entry in left if runs(entry.running)]
        if left and time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            tell(f"waiting for {names(left)} … ({told - began:.0f} s)")
    return left

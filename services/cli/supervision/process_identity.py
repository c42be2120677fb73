"""Identifies the processes of an installation by id and start time, and records them in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PS_SECONDS: Final = 5.0
_STATE, _START = 0, 19
"""Places of the fields of /proc/<pid>/stat after the name, which may hold blanks itself."""


class Running(Struct, frozen=True):
    """A process as it was when it was recorded; `start` is empty where the system does not know its start time."""

    pid: int
    start: str


def current() -> Running:
    """This process."""
    return Running(os.getpid(), start_of(os.getpid()))


def start_of(pid: int) -> str:
    """When a process was started, as a text that no other process with this id has; empty when it does not run.

    A process that has ended and waits for its parent (a zombie) does not run.
    """
    if pid <= 0:
        return ""
    return _start_by_proc(pid) if sys.platform.startswith("linux") else _start_by_ps(pid)


def runs(process: Running) -> bool:
    """Whether the recorded process, and not a later one with its id, runs."""
    return bool(process.start) and start_of(process.pid) == process.start


def _start_by_proc(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _START or fields[_STATE] in ("Z", "X"):
        return ""
    return f"{_boot()}/{fields[_START]}"


@cache
def _boot() -> str:
    """Which start of the machine this is: ticks since the start of the machine repeat."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_by_ps(pid: int) -> str:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PS_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    state, _, start = done.stdout.strip().partition(" ")
    return "" if not start or state.startswith("Z") else " ".join(start.split())


class Entry(Struct, frozen=True, kw_only=True):
    """One process of an installation; `rank` orders the stop: the highest first."""

    name: str
    rank: int
    running: Running


class Roll:
    """The file that holds the record; absent while nothing runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, entries: Iterable[Entry]) -> None:
        """Replace the record; a reader finds the former one or this one, never a part."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_bytes(msgspec.json.encode(list(entries)))
        fresh.replace(self._path)

    def read(self) -> list[Entry]:
        """The record; empty where there is none, or none that can be read."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=list[Entry])
        return []

    def clear(self) -> None:
        """Remove the record."""
        self._path.unlink(missing_ok=True)

    def left(self) -> list[Entry]:
        """The recorded processes that still run."""
        return [entry for entry in self.read() if runs(entry.running)]

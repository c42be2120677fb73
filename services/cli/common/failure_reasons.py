"""Finds in the log file of a process why it cannot start, so that whoever waits for it can say so at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

EVENTS: Final = frozenset({"cannot start", "stopped"})
PERMANENT: Final = ("is unreadable", "are unreadable", "cannot be decrypted", "was cut off")
"""What no further attempt mends."""
_READ: Final = 64 << 10


class _Line(Struct):
    event: str = ""
    reason: str = ""


class Reasons:
    """What a process has written to its log file since this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size if path.exists() else 0

    def permanent(self) -> str:
        """Why every attempt to start it will fail; empty when nothing says so."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(self._from, self._path.stat().st_size - _READ))
                lines = file.read().splitlines()
        except OSError:
            return ""
        for line in reversed(lines):
            try:
                said = msgspec.json.decode(line, type=_Line)
            except msgspec.MsgspecError:
                continue
            if said.event in EVENTS and any(sign in said.reason for sign in PERMANENT):
                return said.reason
        return ""

"""Finds in the log file of a process why it cannot start, so that a start reports it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

EVENTS: Final = frozenset({"cannot start", "stopped"})
PERMANENT: Final = ("is unreadable", "are unreadable", "cannot be decrypted", "was cut off")
"""What no further attempt mends."""
_READ: Final = 64 << 10


_SPEAKERS: Final = ("fleetlog: ", "apiserver: ", "member_sim: ")
"""How plain lines begin that programs write before their log is set up."""


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
        for line in reversed(self._lines()):
            said = _decoded(line)
            if said is not None and said.event in EVENTS and any(sign in said.reason for sign in PERMANENT):
                return said.reason
        return ""

    def last(self) -> str:
        """The last line, without what is the same in all of them; empty where there is none."""
        line = next((line for line in reversed(self._lines()) if line.strip()), b"")
        said = _decoded(line)
        if said is not None:
            return said.reason or said.event
        text = line.decode(errors="replace").strip()
        return next((text.removeprefix(speaker) for speaker in _SPEAKERS if text.startswith(speaker)), text)

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(self._from, self._path.stat().st_size - _READ))
                return file.read().splitlines()
        except OSError:
            return []


def _decoded(line: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError:
        return None

"""The record of the processes of an installation: who runs, so that someone else can stop them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from services.cli.supervision.process_identity import Running, runs


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

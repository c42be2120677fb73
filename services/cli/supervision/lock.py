"""Keeps a second `up` out of a directory in which one runs, and says which process that is."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from services.cli.common.moments import present
from services.cli.supervision.process_identity import Running, current, runs

UP: Final = "fleetlog up"
STOP: Final = "fleetlog stop"


class Holder(Struct, frozen=True):
    """Who holds, or held, the lock; `since` is a time in RFC 3339, `work` the command."""

    running: Running
    since: str
    work: str = UP


class AlreadyRunning(OSError):
    """An installation runs in this directory; the message says which, and what to do."""


class Lock:
    """Held by this process, and none of its children, for as long as the block lasts; raises AlreadyRunning."""

    def __init__(self, path: Path, work: str = UP) -> None:
        """`work`: the command for which a directory is held."""
        self._path = path
        self._work = work
        self._file = -1
        self.former: Holder | None = None
        """Who held the lock before this process did, once it does."""
        # The lock belongs to the open file, which a fork shares: a child would hold it beyond the end of its parent.
        os.register_at_fork(after_in_child=self._release)

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *_: object) -> None:
        self._release()

    def holder(self) -> Holder | None:
        """Who holds the lock, or held it last; None where the file does not say."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=Holder)
        return None

    def _take(self) -> None:
        before = self.holder()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise AlreadyRunning(_described(self._path.parent.parent, self.holder())) from None
        self.former = before
        text = msgspec.json.encode(Holder(current(), present(), self._work))
        # Longer or shorter than before: who reads meanwhile must not find a mixture.
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def _release(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _described(directory: Path, holder: Holder | None) -> str:
    if holder is not None and holder.work != UP and runs(holder.running):
        return f"`{holder.work}` (process {holder.running.pid}) works on {directory}; wait until it has ended"
    stop = f"stop it with `fleetlog stop --dir {directory}`, or use another --dir"
    if holder is None or not runs(holder.running):
        return f"an installation runs in {directory} already; {stop}"
    return f"an installation runs in {directory} already: process {holder.running.pid}, since {holder.since}; {stop}"

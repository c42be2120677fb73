"""Keeps a second `up` out of a directory in which one runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class AlreadyRunning(OSError):
    """An installation runs in this directory; the message says what to do."""


class Lock:
    """Held by this process for as long as the block lasts; raises AlreadyRunning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int = -1

    def __enter__(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise AlreadyRunning(
                f"an installation runs in {self._path.parent.parent} already; stop it or use --dir"
            ) from None

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

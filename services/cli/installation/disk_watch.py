"""Starts the log's server of a laptop installation again once its disk can be written again.

A nats-server that failed to write stops answering for the stream, or turns JetStream off, and stays so whatever becomes
of the disk: only a new start makes it write again. What it had acknowledged is on the disk; what it had not is sent
again. The supervisor starts it as soon as it has ended. A server that ends at every start because the disk takes no
writes is the supervisor's; here the reason is given.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import msgspec
from msgspec import Struct

from services.cli.log.disk.files import refused_file, why_refused

LOOK_SECONDS: Final = 2.0
LONGEST_PAUSE: Final = 60.0
ANSWER_SECONDS: Final = 0.5
_ROOM: Final = 4 << 20
_SIGNS: Final = ("write error", "JetStream not enabled")


class _Health(Struct):
    status: str = ""
    error: str = ""


class _Gone(Exception):
    """The server does not run."""


def complaint(url: str) -> str:
    """Why the server cannot write any more, as its /healthz says; empty when it can, or says nothing.

    Raises _Gone where the port has no listener.
    """
    try:
        with urlopen(url, timeout=ANSWER_SECONDS):
            return ""
    except HTTPError as answer:
        try:
            with answer:
                error = msgspec.json.decode(answer.read(), type=_Health).error
        except (msgspec.MsgspecError, OSError):
            return ""
        return error if any(sign in error for sign in _SIGNS) else ""
    except URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise _Gone from None
        return ""
    except OSError:
        return ""


def unwritable(store: Path) -> str:
    """Why a few megabytes cannot be written to a directory; empty when they can."""
    probe = store / ".writable"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            left = _ROOM
            while left > 0:
                left -= os.write(descriptor, bytes(min(left, 1 << 20)))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return str(error)
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return ""


def end(pid_file: Path) -> int:
    """Ask the server to end; its process id, 0 when it has ended by itself."""
    try:
        pid = int(pid_file.read_text(encoding="utf-8"))
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return 0
    return pid


def look(url: str, store: Path, pid_file: Path) -> tuple[str, bool]:
    """Look once: what is to be reported, and whether the server was asked to end."""
    try:
        why = complaint(url)
    except _Gone:
        if refused := why_refused(refused_file(store)):
            return f"the log's server is not started: {refused}", False
        trouble = unwritable(store)
        text = f"the log's server does not start: {store} takes no writes ({trouble}); it is tried until it does"
        return text if trouble else "", False
    if not why:
        return "", False
    trouble = unwritable(store)
    if trouble:
        return f"the log's server cannot write: {why}; it is started again once {store} takes writes ({trouble})", False
    return f"{store} takes writes again: the log's server (process {end(pid_file)}) is started again", True


class LogWatch:
    """Looks now and then; the supervisor asks, so that no process of its own is needed."""

    def __init__(self, url: str, store: Path, pid_file: Path) -> None:
        self._url, self._store, self._pid_file = url, store, pid_file
        self._reported = ""
        self._pause = LOOK_SECONDS
        self._due = time.monotonic() + LOOK_SECONDS

    @property
    def seconds(self) -> float:
        """Until the next look."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> None:
        """Look if it is time, and report what is new."""
        if self.seconds > 0:
            return
        text, ended = look(self._url, self._store, self._pid_file)
        if text and text != self._reported:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        self._reported = text
        # A server that fails right after its start is not ended all the time.
        self._pause = min(self._pause * 2, LONGEST_PAUSE) if ended else LOOK_SECONDS
        self._due = time.monotonic() + self._pause

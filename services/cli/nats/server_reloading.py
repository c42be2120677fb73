"""Has a server of the log read its files again after they changed, and says when it refuses them.

It runs beside the server, with the same user and in the same process namespace. Kubernetes exchanges the files of a
Secret as a whole; the server is told nothing of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from services.cli.common.running import Failed

SERVER: Final = "nats-server"
TIMES: Final = 2
"""An account that a reload added gets its imports with the next one only (docs/adr/0008-agents-accounts.md)."""
APART: Final = 1.0
TAKES_AT_MOST: Final = 15.0
AGAIN_AFTER: Final = 300.0
"""Seconds after which files that were refused are tried once more: a server that was busy answers late."""
_ANSWERS_WITHIN: Final = 5.0
_LOOKS: Final = 0.1
_CLOCKS_DIFFER: Final = 0.1
"""The kernel stamps files by a clock of coarse steps."""
_REFUSED: Final = "refused"
_LOOKED: Final = "looked"


@dataclass(frozen=True)
class Reloaded:
    """Which server is told, about which files or directories, and where it is written what happened.

    `state` gets a file `looked` with every look, and `refused` while the server does not take what is there.
    """

    files: Sequence[Path]
    pid_file: Path
    monitor: str
    state: Path
    every: float


@dataclass(frozen=True)
class _Contents:
    """What files hold, and when the newest of them came."""

    digest: bytes
    newest: float


class _Facts(Struct):
    """What the server's monitoring says of it, as far as it matters here."""

    config_load_time: datetime


class Reloader:
    """Compares what the server read with what is there. Each look is one call of `look`."""

    def __init__(self, wanted: Reloaded) -> None:
        self._wanted = wanted
        self._loaded_at = 0.0
        self._loaded = b""
        self._tried = b""
        self._again = 0.0

    async def look(self) -> None:
        """Have the server read its files again if they are others than those that it read."""
        (self._wanted.state / _LOOKED).touch()
        contents = _contents(self._wanted.files)
        loaded_at = await self._asked()
        if contents is None or loaded_at is None:
            # They are being exchanged, or the server starts and reads them anyway.
            return
        if loaded_at != self._loaded_at:
            self._loaded_at = loaded_at
            self._loaded = contents.digest if contents.newest < loaded_at - _CLOCKS_DIFFER else b""
            self._tried = b""
        if contents.digest == self._loaded:
            (self._wanted.state / _REFUSED).unlink(missing_ok=True)
        elif contents.digest != self._tried or time.monotonic() >= self._again:
            await self._reload(contents.digest)

    async def _reload(self, digest: bytes) -> None:
        process = self._process()
        if process is None:
            return
        self._tried, self._again = digest, time.monotonic() + AGAIN_AFTER
        for number in range(TIMES):
            if number:
                await asyncio.sleep(APART)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGHUP)
            moved = await self._moved()
            if moved is None:
                self._refuse(process)
                return
            self._loaded_at = moved
        self._loaded = digest
        (self._wanted.state / _REFUSED).unlink(missing_ok=True)
        _say(f"files changed; {SERVER} (process {process}) read them")

    def _process(self) -> int | None:
        """The server's process; None while it starts."""
        path = self._wanted.pid_file
        try:
            process = int(path.read_text(encoding="ascii"))
            name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return None
        # A server that was killed leaves its file, and another process may have its number by now.
        return process if name == SERVER else None

    async def _moved(self) -> float | None:
        """When the server read its files, once that is later than it was; None when it does not become so."""
        until = time.monotonic() + TAKES_AT_MOST
        while time.monotonic() < until:
            at = await self._asked()
            if at is not None and at != self._loaded_at:
                return at
            await asyncio.sleep(_LOOKS)
        return None

    def _refuse(self, process: int) -> None:
        text = (
            f"{SERVER} (process {process}) does not take its changed files and goes on with what it had; "
            "its own log says why. Do not restart it before they are put right"
        )
        _say(f"error: {text}")
        # The file is there as a whole or not at all.
        whole = self._wanted.state / f".{_REFUSED}"
        whole.write_text(text + "\n", encoding="utf-8")
        whole.replace(self._wanted.state / _REFUSED)

    async def _asked(self) -> float | None:
        return await asyncio.to_thread(_load_time, self._wanted.monitor)


async def reload_on_change(wanted: Reloaded) -> int:
    """Look until the process is asked to end."""
    if urlsplit(wanted.monitor).scheme != "http" or not urlsplit(wanted.monitor).hostname:
        raise Failed(f"{wanted.monitor!r} is no address of a server's monitoring, such as http://127.0.0.1:8222")
    for name in (_LOOKED, _REFUSED):
        (wanted.state / name).unlink(missing_ok=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    reloader = Reloader(wanted)
    _say(f"follows {', '.join(map(str, wanted.files))}")
    while not ended.is_set():
        await reloader.look()
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), wanted.every)
    return 0


def _contents(places: Sequence[Path]) -> _Contents | None:
    """Of all files in directories, without what lies deeper; None while one of them cannot be read."""
    digest, newest = hashlib.sha256(), 0.0
    try:
        for place in places:
            for path in sorted(place.iterdir()) if place.is_dir() else [place]:
                # A mounted Secret has links to `..data`, which is a link to the directory of its newest version.
                newest = max(newest, path.lstat().st_mtime)
                if path.name.startswith("..") or not path.is_file():
                    continue
                data = path.read_bytes()
                newest = max(newest, path.stat().st_mtime)
                digest.update(f"{path}\0{len(data)}\0".encode())
                digest.update(data)
    except OSError:
        return None
    return _Contents(digest.digest(), newest)


def _load_time(monitor: str) -> float | None:
    """When a server read its configuration, as it says itself; None when it does not answer."""
    address = urlsplit(monitor)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=_ANSWERS_WITHIN)
    try:
        connection.request("GET", "/varz")
        answer = connection.getresponse()
        body = answer.read()
        return msgspec.json.decode(body, type=_Facts).config_load_time.timestamp()
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return None
    finally:
        connection.close()


def _say(text: str) -> None:
    print(text, flush=True)

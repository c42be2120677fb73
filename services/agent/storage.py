"""Keeps an agent's state in one file, replaced in one step, a moment after it changed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from services.agent.state import AgentState, NotOurs, load, save

log = structlog.get_logger("agent.storage")

PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
_SHARE: Final = 20
_FILE: Final = "works.json"


def pause_after(seconds: float) -> float:
    """How long to wait before the next save when the last one took so long: all of the state is written each time."""
    return min(max(PAUSE, seconds * _SHARE), LONGEST_PAUSE)


class Storage:
    """The file of one agent; `after_save` is called when the file is complete."""

    def __init__(self, directory: Path, cluster: str, after_save: Callable[[], None]) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.trouble = ""
        """Why the last write failed; empty when it did not."""
        self._path = directory / _FILE
        self._after_save = after_save
        self._changed = asyncio.Event()
        self.state = self._load(cluster)

    def _load(self, cluster: str) -> AgentState:
        """What was saved; an empty state when there is nothing of use, and then the hub tells everything anew."""
        try:
            return load(cluster, self._path.read_bytes())
        except FileNotFoundError:
            return AgentState(cluster=cluster)
        except NotOurs as error:
            aside = self._path.with_suffix(".unusable")
            log.warning("state_set_aside", file=str(aside), reason=str(error))
            self._path.replace(aside)
            return AgentState(cluster=cluster)

    def changed(self) -> None:
        """The state is another one: write it soon."""
        self._changed.set()

    async def run(self) -> None:
        """Write whenever something changed, at most once per pause; and a last time when cancelled."""
        pause = PAUSE
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(pause)
                self._changed.clear()
                began = time.thread_time()
                await self._save()
                # What other tasks did meanwhile counts as well: a busy agent saves more rarely.
                pause = pause_after(time.thread_time() - began)
        finally:
            if self._changed.is_set():
                self._write(save(self.state))

    async def _save(self) -> None:
        data = save(self.state)
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as error:
            self.trouble = f"{self._path} cannot be written: {error}"
            self._changed.set()
            return
        self.trouble = ""
        self._after_save()

    def _write(self, data: bytes) -> None:
        beside = self._path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

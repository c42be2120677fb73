"""Persists the agent's state: appends each change to a file, and at intervals replaces it with a new snapshot.

Everything is written to another file, which takes the place of the first in one step, and the changes begin again
behind it. What is written for a change does not depend on how much is known besides.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog

from schemas.keys import ObjectKey
from services._kit.concurrency.tasks import set_within
from services._kit.log.ids import random_id
from services.agent.state import AgentState, Changes
from services.agent.state_file import ForeignState, load, save, save_changes

log = structlog.get_logger("agent.storage")

PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
LEAST_CHANGES: Final = 1 << 16
"""Bytes of changes that are kept however small the state is."""
_SHARE: Final = 20
_FILE: Final = "works.json"
_CHANGES: Final = "works.changes"


def pause_after(seconds: float) -> float:
    """How long to wait before the next save when the last one took so long: at times all of the state is written."""
    return min(max(PAUSE, seconds * _SHARE), LONGEST_PAUSE)


def stored(directory: Path, cluster: str) -> AgentState:
    """The state that the files of an agent hold; raises NotOurs, FileNotFoundError where there is none."""
    whole, changes = (directory / _FILE).read_bytes(), directory / _CHANGES
    return load(cluster, whole, changes.read_bytes() if changes.exists() else b"")


class StateStorage:
    """The files of one agent; `after_save` is called with the objects of which changes are on disk now."""

    def __init__(self, directory: Path, cluster: str, after_save: Callable[[Collection[ObjectKey]], None]) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.trouble = ""
        """Why the last write failed; empty when it did not."""
        self._path = directory / _FILE
        self._changes = directory / _CHANGES
        self._after_save = after_save
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        """Those that wait for the end of the next save."""
        self._saving = False
        self._name = ""
        """What the changes call the state they stand behind; none before this agent wrote it."""
        self._whole_bytes = self._changes_bytes = 0
        self.state = self._load(cluster)
        # A crash may have cut the last change short: nothing is added behind it.
        self.state.changes.whole = True

    def _load(self, cluster: str) -> AgentState:
        """The saved state; an empty state when none can be used, and then the hub replays everything."""
        try:
            return stored(self._path.parent, cluster)
        except FileNotFoundError:
            return AgentState(cluster=cluster)
        except ForeignState as error:
            aside = self._path.with_suffix(".unusable")
            log.warning("state_set_aside", file=str(aside), reason=str(error))
            self._path.replace(aside)
            return AgentState(cluster=cluster)

    def changed(self) -> None:
        """The state is another one: write it soon."""
        self._changed.set()

    async def kept(self, key: ObjectKey) -> None:
        """Return once the state of an object is on disk, or could not be written: then `trouble` holds the reason."""
        if not self._saving and key not in self.state.changes.keys:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._hurry.set()
        self._changed.set()
        await done

    async def run(self) -> None:
        """Write whenever something changed, at most once per pause unless it is waited for; a last time at the end."""
        pause = PAUSE
        try:
            while True:
                await self._changed.wait()
                await set_within(self._hurry, pause)
                self._changed.clear()
                began = time.thread_time()
                await self._save()
                # What other tasks did meanwhile counts as well: a busy agent saves more rarely.
                pause = pause_after(time.thread_time() - began)
        finally:
            if self._changed.is_set():
                self._write_all(*self._all())

    async def _save(self) -> None:
        self._hurry.clear()
        waiting, self._waiting, self._saving = self._waiting, [], True
        try:
            await self._write_changes(self.state.changes.taken())
        finally:
            self._saving = False
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    async def _write_changes(self, changes: Changes) -> None:
        try:
            if changes.whole or self._changes_bytes > max(self._whole_bytes, LEAST_CHANGES):
                await asyncio.to_thread(self._write_all, *self._all())
                changed: Collection[ObjectKey] = list(self.state.works.works)
            else:
                line = save_changes(self.state, self._name, changes.keys)
                await asyncio.to_thread(self._add, line)
                changed = changes.keys
        except OSError as error:
            self.trouble = f"{self._path} cannot be written: {error}"
            # Half a change may stand there now.
            self.state.changes.whole = True
            self._changed.set()
            return
        self.trouble = ""
        self._after_save(changed)

    def _all(self) -> tuple[str, bytes]:
        name = random_id()
        return name, save(self.state, name)

    def _write_all(self, name: str, data: bytes) -> None:
        beside = self._path.with_suffix(".new")
        _write(beside, data, os.O_TRUNC)
        beside.replace(self._path)
        # The remaining changes belong to the previous snapshot, so no reader applies them.
        _write(self._changes, b"", os.O_TRUNC)
        self._name, self._whole_bytes, self._changes_bytes = name, len(data), 0

    def _add(self, line: bytes) -> None:
        _write(self._changes, line, os.O_APPEND)
        self._changes_bytes += len(line)


def _write(path: Path, data: bytes, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

"""Deletes Events some time after they were written last, as a kube-apiserver does (`--event-ttl`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.supervision import Supervised, supervise
from services.apiserver.store.store_port import Conflict, Event, Key, Store, StoreUnavailable

ROUND_SECONDS: Final = 15.0
AT_ONCE: Final = 200
"""Events that one round deletes: others have the log to themselves in between."""


class EventExpiry:
    """Knows when each Event was written last; `seconds` is how long it stays."""

    def __init__(self, store: Store, seconds: float, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._seconds = seconds
        self._now = now
        self._written: dict[Key, float] = {}
        """In the order of their times."""
        self._task: Supervised | None = None

    async def start(self) -> None:
        """Learn the age of what is there, then follow changes."""
        found = [(written_at(entry.look()), entry.key) for entry in self._store.list("", "events")]
        self._written = {key: at for at, key in sorted(found)}
        self._store.listen(self._on_event, ("", "events"))
        self._task = supervise("event-expiry", self._run)

    async def stop(self) -> None:
        """Stop deleting."""
        if self._task is not None:
            await self._task.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        self._written.pop(key, None)
        if not event.deleted:
            self._written[key] = self._now()

    async def _run(self) -> None:
        while True:
            full = await self.expire() == AT_ONCE
            await asyncio.sleep(1.0 if full else ROUND_SECONDS)

    async def expire(self) -> int:
        """Delete the oldest Events that are over, a bounded number; how many there were."""
        limit = self._now() - self._seconds
        due: list[Key] = []
        for key, at in self._written.items():
            if at > limit or len(due) == AT_ONCE:
                break
            due.append(key)
        for key in due:
            entry = self._store.get(key)
            if entry is None:
                self._written.pop(key, None)
                continue
            try:
                await self._store.delete(key, entry.obj, entry.revision)
            except Conflict:
                continue  # It was written just now.
            except StoreUnavailable:
                break
        return len(due)


def written_at(event: Manifest) -> float:
    """When an Event was written last, in seconds since 1970 by what it says itself; 0 where it says nothing."""
    texts = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    try:
        return datetime.fromisoformat(next((str(text) for text in texts if text), "")).timestamp()
    except ValueError:
        return 0.0

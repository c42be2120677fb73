"""Deletes finished Jobs once `spec.ttlSecondsAfterFinished` is over."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.store.store_port import Entry, Event, Key
from services.apiserver.writes.deletion import DeleteOptions, Deleter
from services.apiserver.writes.object_writes import Objects

_WORD: Final = b'"ttlSecondsAfterFinished":'
_ENDS: Final = ("Complete", "Failed")


class FinishedJobs:
    """Follows Jobs with a time to live."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter
        self._queue: WorkQueue[Key] = WorkQueue(self._handle)
        self._call = Call(LOOPBACK, manager="ttl-after-finished")

    async def start(self) -> None:
        """Look at every Job once, then follow changes."""
        self._objects.store.listen(self._on_event, ("batch", "jobs"))
        for entry in list(self._objects.store.list("batch", "jobs")):
            self._take(entry)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        if not event.deleted:
            self._take(event.entry)

    def _take(self, entry: Entry) -> None:
        # Most Jobs have none, which their bytes show without decoding.
        if _WORD in entry.raw:
            self._queue.add(entry.key)

    async def _handle(self, key: Key) -> float | None:
        entry = self._objects.store.get(key)
        kind = self._objects.registry.find("batch", "v1", "jobs")
        if entry is None or kind is None or entry.obj["metadata"].get("deletionTimestamp"):
            return None
        ends = ends_at(entry.obj)
        if ends is None:
            return None
        left = ends - time.time()
        if left > 0:
            return left
        uid = entry.obj["metadata"]["uid"]
        options = DeleteOptions({"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}, {})
        await self._deleter.discard(kind, key, options, self._call, (404, 409))
        return None


def ends_at(job: Manifest) -> float | None:
    """When a Job may be deleted, in seconds since 1970; None while it runs, or when it has no time to live."""
    lifetime = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in _ENDS and condition.get("status") == "True" and lifetime is not None:
            try:
                finished = datetime.fromisoformat(condition.get("lastTransitionTime") or "")
            except ValueError:
                return None
            return finished.timestamp() + float(lifetime)
    return None

"""Writes Kubernetes Events about policies that cannot be applied; these are not recorded as facts."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Final

from schemas.keys import ObjectKey
from services._kit.concurrency.keyed_work import Background
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.kubernetes.event_objects import Note, event_name, event_of

AT_ONCE: Final = 4
_REMEMBERED: Final = 10_000


class Complaints:
    """Events on their way; the latest Event about an object is not repeated."""

    def __init__(self) -> None:
        self._writes: Background[ObjectKey] = self._background()
        self._latest: dict[ObjectKey, str] = {}

    @staticmethod
    def _background() -> Background[ObjectKey]:
        return Background(concurrency=AT_ONCE, retry=(Unreachable, _Again))

    def tell(self, client: KubeClient, note: Note, now: float) -> None:
        """Write an Event unless it equals the latest one about the object; `now` in seconds since 1970."""
        name = event_name(note)
        if self._latest.get(note.key) == name:
            return
        self._latest[note.key] = name
        while len(self._latest) > _REMEMBERED:
            del self._latest[next(iter(self._latest))]
        self._writes.submit(note.key, partial(_write, client, note, now))

    def settled(self, key: ObjectKey) -> None:
        """An object has no problem: the next Event about it is written, even if it equals the last one."""
        self._latest.pop(key, None)

    async def drained(self) -> None:
        """Return once nothing is on its way."""
        await self._writes.drained()

    async def close(self) -> None:
        """Drop pending Events: another instance finds the same problems and writes them."""
        writes, self._writes = self._writes, self._background()
        self._latest.clear()
        await writes.close()


class _Again(Exception):
    """The control plane is too busy for an Event."""


async def _write(client: KubeClient, note: Note, now: float) -> None:
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = resource_path("", "v1", "events", note.key.namespace or "default")
    try:
        await client.request("POST", path, body=event_of(note, first=at, last=at, count=1))
    except ApiError as error:
        if error.status in PASSING:
            raise _Again(str(error)) from error
        if error.status == 409:
            await _renew(client, f"{path}/{event_name(note)}", at)
        elif error.status not in (403, 404):
            raise


async def _renew(client: KubeClient, path: str, at: str) -> None:
    """An earlier instance wrote the same Event: it still holds."""
    try:
        await client.patch(path, {"lastTimestamp": at})
    except ApiError as error:
        if error.status in PASSING:
            raise _Again(str(error)) from error
        if error.status not in (403, 404):
            raise

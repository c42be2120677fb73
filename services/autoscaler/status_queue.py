"""Writes what autoscalers and schedules show, behind the scales: pods wait for a scale, only people for a status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import structlog

from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import Background
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, Unreachable
from services.autoscaler.autoscaler_writes import shows
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.scaling_effects import WriteStatus
from services.autoscaler.schedule_decision import WriteHistory

log = structlog.get_logger("autoscaler")

_SCALES_FIRST_SECONDS: Final = 2.0
"""For how long a status waits at most while something more urgent is under way."""
_FOLLOWING_SECONDS: Final = 1.0
"""For how long a written scale goes on to keep services and members busy: it is placed, rendered and delivered."""


class _Retry(Exception):
    """A write that is tried again."""


class StatusQueue:
    """The latest status of each object that does not show it yet.

    Statuses wait while a round is read, while scales are written and while these are carried out: at most for two
    seconds behind the first that waits, and each for two seconds more behind scales.
    """

    def __init__(
        self,
        found: Callable[[PolicyKey], Watched | None],
        write: Callable[[PolicyKey, str, Manifest], Awaitable[None]],
        scales_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._found = found
        self._write = write
        self._scales_written = scales_written
        self._shown: dict[PolicyKey, tuple[str, Mapping[str, object]]] = {}
        self._queue = _queue()
        self._first = 0.0
        """When the first of those that wait was given, by the clock of the loop."""
        self._busy_until = 0.0
        self._read = asyncio.Event()
        self._read.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold statuses back, while a round is read."""
        self._read.clear()
        try:
            yield
        finally:
            self._read.set()

    def scaled(self) -> None:
        """Hold statuses back while a scale that was just written is carried out."""
        self._busy_until = asyncio.get_running_loop().time() + _FOLLOWING_SECONDS

    def submit(self, effect: WriteStatus | WriteHistory) -> None:
        """Write a status unless it is shown already, or was written just now."""
        found = self._found(effect.key)
        if found is None or found.uid != effect.uid:
            return
        written = self._shown.get(effect.key)
        present = {**found.status, **written[1]} if written is not None and written[0] == effect.uid else found.status
        if shows(present, effect.status):
            return
        if not self._queue.pending:
            self._first = asyncio.get_running_loop().time()
        self._queue.submit(effect.key, partial(self._carry_out, effect))

    def forget(self, key: PolicyKey) -> None:
        """Forget what an object shows that is gone."""
        self._shown.pop(key, None)

    async def drop(self) -> None:
        """Write nothing of what was given so far."""
        queue, self._queue = self._queue, _queue()
        self._shown.clear()
        await queue.close()

    async def _carry_out(self, effect: WriteStatus | WriteHistory) -> None:
        await self._turn()
        try:
            await self._write(effect.key, effect.uid, effect.status)
        except ApiError as error:
            if error.status in PASSING:
                raise _Retry(str(error)) from error
            log.warning("status_refused", key=str(effect.key), reason=str(error)[:500])
            return
        self._shown[effect.key] = (effect.uid, effect.status)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._first + _SCALES_FIRST_SECONDS):
                await self._read.wait()
                while (rest := self._busy_until - loop.time()) > 0:  # noqa: ASYNC110 - each scale moves the moment on
                    await asyncio.sleep(rest)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SCALES_FIRST_SECONDS):
                await self._scales_written()


def _queue() -> Background[PolicyKey]:
    return Background(concurrency=8, retry=(_Retry, Unreachable), longest_pause=5.0)

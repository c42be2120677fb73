"""Queues status writes: kinds whose status a script or webhook aggregates have a queue each, apart from the others.

So a program of a user that is slow or hangs holds up the objects of its own kind only, and each object once: a newer
sum takes the place of one that waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from schemas.keys import ObjectKey
from services._kit.concurrency.keyed_work import Background
from services._rules.interpreter.configuration import Target

LONGEST_PAUSE: Final = 5.0
"""Between two tries of a write, in seconds: so soon is a status right after the control plane is."""


class Writes:
    """Status writes on their way; `concurrency` bounds those of the built-in kinds, and those of each other kind."""

    def __init__(self, concurrency: int, retry: tuple[type[Exception], ...]) -> None:
        self._concurrency = concurrency
        self._retry = retry
        self._builtin = self._background()
        self._apart: dict[Target, Background[ObjectKey]] = {}

    def _background(self) -> Background[ObjectKey]:
        return Background(concurrency=self._concurrency, retry=self._retry, longest_pause=LONGEST_PAUSE)

    @property
    def pending(self) -> int:
        """Writes that are not done."""
        return self._builtin.pending + sum(queue.pending for queue in self._apart.values())

    def submit(self, key: ObjectKey, apart: Target | None, write: Callable[[], Awaitable[None]]) -> None:
        """Enqueue a status write; `apart` is the kind where a user's script or webhook aggregates it."""
        queue = self._builtin if apart is None else self._apart.get(apart)
        if queue is None:
            assert apart is not None
            queue = self._apart[apart] = self._background()
        if self._apart:
            # Another queue may hold it from before the kind was customized, or from after.
            for other in (self._builtin, *self._apart.values()):
                if other is not queue:
                    other.forget(key)
        queue.submit(key, write)

    async def drained(self) -> None:
        """Return once everything submitted is done."""
        for queue in (self._builtin, *self._apart.values()):
            await queue.drained()

    async def close(self) -> None:
        """Drop what waits and cancel what runs."""
        queues = (self._builtin, *self._apart.values())
        self._builtin, self._apart = self._background(), {}
        for queue in queues:
            await queue.close()

"""A log that misbehaves on request: refuses certain messages, loses answers, is away for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services._kit.base.log_errors import Ambiguous, LogError, Refused
from services._kit.log.stream_port import Appended, Fence, Log, NewMessage
from tests.support.memory_log import one_by_one


class FaultyLog:
    """Passes everything on to another log, except what a test asked to go wrong."""

    def __init__(self, inner: Log) -> None:
        self.inner = inner
        self.refuse: Callable[[NewMessage], bool] = lambda _: False
        self.swallow_answers = 0
        self.fail_next: list[LogError] = []
        self.sizes: list[int] = []
        self.apart = inner.apart

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def append(self, messages: Sequence[NewMessage], fence: Fence | None = None) -> Appended:
        """Append, or what was asked for instead."""
        self.sizes.append(len(messages))
        if self.fail_next:
            raise self.fail_next.pop(0)
        if any(self.refuse(message) for message in messages):
            raise Refused(10052, "refused by the test")
        appended = await self.inner.append(messages, fence)
        if self.swallow_answers:
            self.swallow_answers -= 1
            raise Ambiguous("the test swallowed the answer")
        return appended

    async def append_each(
        self, messages: Sequence[NewMessage], fence: Fence | None = None
    ) -> list[Appended | LogError]:
        """Append one by one, each with its own trouble."""
        return await one_by_one(self, messages, fence)

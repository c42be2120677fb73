"""Tracks failing keys: when each may be retried, which are parked, and when to stop altogether."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from services._kit.runtime.timers import Timers

if TYPE_CHECKING:
    from services._kit.runtime.decision_loop import LoopOptions

K = TypeVar("K", bound=Hashable)


class FailureTracker(Generic[K]):
    """Backoff per key and a brake on the ratio of parked keys among the latest outcomes.

    `now` is monotonic time in seconds: a wall clock that is set must neither prolong a pause nor cut it short.
    """

    def __init__(self, options: LoopOptions) -> None:
        self.parked: dict[K, str] = {}
        self._options = options
        self._failed: dict[K, int] = {}
        self._waiting: Timers[K] = Timers()
        self._until: dict[K, float] = {}
        self._outcomes: deque[bool] = deque(maxlen=max(options.brake_sample, 200))

    def waits(self, key: K) -> bool:
        """Whether a key is not to be tried yet."""
        return key in self._until

    def seen(self, key: K) -> bool:
        """Whether a key failed before and has not succeeded since."""
        return key in self._failed

    def failed(self, key: K, reason: str, now: float) -> bool:
        """Note a failure; true when the key is parked by it (for another reason than before)."""
        count = self._failed[key] = self._failed.get(key, 0) + 1
        if count >= self._options.attempts:
            return self.park(key, reason)
        at = now + min(self._options.longest_backoff, self._options.backoff * 2 ** (count - 1))
        self._until[key] = at
        self._waiting.set(key, at)
        return False

    def park(self, key: K, reason: str) -> bool:
        """Set a key aside until something new makes it dirty; true when this is news."""
        self._outcomes.append(False)
        # One more failure parks it again: a parked key has no patience left.
        self._failed[key] = self._options.attempts - 1
        news = self.parked.get(key) != reason
        self.parked[key] = reason
        return news

    def succeeded(self, key: K) -> None:
        """Forget what was wrong with a key."""
        self._outcomes.append(True)
        if self._failed:
            self._failed.pop(key, None)
            self.parked.pop(key, None)

    def due(self, now: float) -> list[K]:
        """Keys whose time of waiting is over."""
        keys = self._waiting.due(now)
        for key in keys:
            del self._until[key]
        return keys

    def next(self) -> float | None:
        """When the next key may be tried."""
        return self._waiting.next()

    @property
    def too_many(self) -> bool:
        """Whether so many of the latest outcomes were parked keys that something general must be wrong."""
        outcomes, options = self._outcomes, self._options
        return len(outcomes) >= options.brake_sample and outcomes.count(False) > options.brake_ratio * len(outcomes)

    def forgive(self) -> list[K]:
        """Reset the sample and retry every parked key; returns them."""
        self._outcomes.clear()
        return list(self.parked)

    def clear(self) -> None:
        """Forget everything."""
        self.parked.clear()
        self._failed.clear()
        self._until.clear()
        self._waiting.clear()
        self._outcomes.clear()

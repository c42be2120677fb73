"""Tracks failing keys: when each may be retried, which are parked, and when to stop altogether."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from schemas.events.parked import KeyDropped, KeyRetried
from schemas.instance import MOST_PARKED, ParkedKey
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
        self.dropped: dict[K, str] = {}
        """Keys that fail for the very reason for which an operator gave them up."""
        self.given_up: dict[str, str] = {}
        """That reason by the name of the key."""
        self._options = options
        self._failed: dict[K, int] = {}
        self._waiting: Timers[K] = Timers()
        self._until: dict[K, float] = {}
        self._again: set[K] = set()
        """Parked keys that an operator wants tried: what becomes of them is news."""
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
        # One more failure parks it again: a parked key has no patience left.
        self._failed[key] = self._options.attempts - 1
        if self.given_up and self.given_up.get(str(key)) == reason:
            self.parked.pop(key, None)
            self.dropped[key] = reason
            return False
        self.dropped.pop(key, None)
        self._outcomes.append(False)
        news = self.parked.get(key) != reason or key in self._again
        self._again.discard(key)
        self.parked[key] = reason
        return news

    def succeeded(self, key: K) -> None:
        """Forget what was wrong with a key."""
        self._outcomes.append(True)
        if self._failed:
            self._failed.pop(key, None)
            self.parked.pop(key, None)
            self.dropped.pop(key, None)
            self._again.discard(key)

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

    def find(self, name: str) -> list[K]:
        """The key of this name that is not tried any more; nothing for any other."""
        return [key for keys in (self.parked, self.dropped) for key in keys if str(key) == name]

    def again(self, keys: list[K]) -> None:
        """These are to be tried once more."""
        for key in keys:
            self.parked.setdefault(key, self.dropped.pop(key, ""))
        self._again.update(keys)

    def drop(self, key: K) -> None:
        """Count a key as parked no more, as its reason is the one for which it was given up."""
        reason = self.parked.get(key)
        if reason is not None and self.given_up.get(str(key)) == reason:
            self.dropped[key] = self.parked.pop(key)

    def named(self) -> tuple[ParkedKey, ...]:
        """Keys that are not tried any more by name, as far as an answer holds them."""
        parked = [ParkedKey(str(key), reason) for key, reason in islice(self.parked.items(), MOST_PARKED)]
        dropped = islice(self.dropped.items(), MOST_PARKED - len(parked))
        return (*parked, *(ParkedKey(str(key), reason, dropped=True) for key, reason in dropped))

    def forgive(self) -> list[K]:
        """Reset the sample and retry every parked key; returns them."""
        self._outcomes.clear()
        return list(self.parked)

    def clear(self) -> None:
        """Forget everything."""
        self.parked.clear()
        self.dropped.clear()
        self._again.clear()
        self._failed.clear()
        self._until.clear()
        self._waiting.clear()
        self._outcomes.clear()


class GivenUp(Generic[K]):
    """What operators want done about parked keys; `reasons` has why they gave keys up, by the name of the key."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def take(self, event: KeyRetried | KeyDropped, troubles: FailureTracker[K] | None) -> list[K]:
        """Take in an operator's word; keys to try again. Without a tracker this instance decides nothing."""
        found = troubles.find(event.key) if troubles is not None else []
        if isinstance(event, KeyRetried):
            self.reasons.pop(event.key, None)
            if troubles is not None:
                troubles.again(found)
            return found
        self.reasons[event.key] = event.reason
        if troubles is not None:
            for key in found:
                troubles.drop(key)
        return []

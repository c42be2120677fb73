"""Computes when a failed scheduling attempt is retried: exponential backoff, and a rate limit over all objects."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
"""Seconds between attempts with gate PriorityBasedScheduling: 1, 2, 4, 8, 10, 10, ….

Source: docs/sources.md#scheduling-queue.
"""
_MOST_DOUBLINGS: Final = 40


class Limits(Struct, frozen=True):
    """How patiently errors are retried: seconds, seconds, retries per second, and how many of them at once."""

    base_delay: float = 0.005
    max_delay: float = 1000.0
    qps: float = 10.0
    bucket_size: int = 100


class Retries:
    """Failures in a row by object, and the bucket that all retries share."""

    def __init__(self, limits: Limits = Limits(), *, by_priority: bool = False) -> None:  # noqa: B008 - immutable
        self._limits = limits
        self._by_priority = by_priority
        self._failures: dict[ObjectKey, int] = {}
        self._tokens = float(limits.bucket_size)
        self._filled_at = 0.0

    def __len__(self) -> int:
        """Objects that wait to be tried again."""
        return len(self._failures)

    def failed(self, key: ObjectKey, now: float) -> float:
        """Note one more failure; when the object is tried again, in seconds since 1970."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        doubled = 2.0 ** min(failures, _MOST_DOUBLINGS)
        if self._by_priority:
            delay = min(FIRST_BACKOFF * doubled, LONGEST_BACKOFF)
        else:
            delay = min(self._limits.base_delay * doubled, self._limits.max_delay)
        return now + max(delay, self._wait(now))

    def over(self, key: ObjectKey) -> None:
        """The object did not end in an error, or is gone: its next failure is a first one."""
        if self._failures:
            self._failures.pop(key, None)

    def clear(self) -> None:
        """Forget every failure."""
        self._failures.clear()

    def _wait(self, now: float) -> float:
        """Take a token out of the bucket, one that is not in it yet if need be; seconds until it is there."""
        limits = self._limits
        gained = max(0.0, now - self._filled_at) * limits.qps
        self._tokens = min(float(limits.bucket_size), self._tokens + gained) - 1.0
        self._filled_at = now
        return max(0.0, -self._tokens / limits.qps)

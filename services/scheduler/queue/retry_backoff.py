"""Computes when a failed scheduling attempt is retried: exponential backoff, and a rate limit over all objects."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey
from services._kit.base.backoff import EXACT, Backoff
from services._kit.base.token_bucket import Bucket

BY_PRIORITY: Final = Backoff(1.0, 10.0, EXACT)
"""Pauses between attempts with gate PriorityBasedScheduling: 1, 2, 4, 8, 10, 10, … (reference 02 §1.12)."""


class Limits(Struct, frozen=True):
    """How patiently errors are retried: seconds, seconds, retries per second, and how many of them at once."""

    base_delay: float = 0.005
    max_delay: float = 1000.0
    qps: float = 10.0
    bucket_size: int = 100


class Retries:
    """Failures in a row by object, and the bucket that all retries share."""

    def __init__(self, limits: Limits = Limits(), *, by_priority: bool = False) -> None:  # noqa: B008 - immutable
        self._backoff = BY_PRIORITY if by_priority else Backoff(limits.base_delay, limits.max_delay, EXACT)
        self._bucket = Bucket(limits.qps, limits.bucket_size)
        self._failures: dict[ObjectKey, int] = {}

    def __len__(self) -> int:
        """Objects that wait to be tried again."""
        return len(self._failures)

    def failed(self, key: ObjectKey, now: float) -> float:
        """Note one more failure; when the object is tried again, in seconds since 1970."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return now + max(self._backoff.pause(failures), self._bucket.take(1.0, now))

    def over(self, key: ObjectKey) -> None:
        """The object did not end in an error, or is gone: its next failure is a first one."""
        if self._failures:
            self._failures.pop(key, None)

    def clear(self) -> None:
        """Forget every failure."""
        self._failures.clear()

"""Limits a rate with a token bucket: returns the wait before the next item."""

from __future__ import annotations


class Bucket:
    """A token bucket that may be overdrawn once: large pieces pass, and what follows waits for them."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def take(self, amount: float, now: float) -> float:
        """Take tokens at a time in seconds; how many seconds to wait before the next piece. 0 tokens only ask."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._tokens -= amount
        return max(0.0, -self._tokens / self._rate)

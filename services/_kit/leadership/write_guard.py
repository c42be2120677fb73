"""Decides whether a leader may send what the log's fence does not cover: requests to clusters, observations.

Asked right before each such request. A leader that stood still, or cannot reach the log, waits until its lease is
confirmed; one that was replaced learns of it here and sends nothing.
"""

from __future__ import annotations

from typing import Protocol

from services._kit.base.log_errors import FenceLost
from services._kit.leadership.lease import Lease


class Guard(Protocol):
    """Whether this instance may send."""

    @property
    def holds(self) -> bool:
        """Whether it may be sent right now."""

    async def wait(self) -> None:
        """Return once it may be sent; raises FenceLost when it never will be."""


class LeaderGuard:
    """One lease, one term of acting at a time."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._term = 0

    def begin(self) -> None:
        """A term of acting begins, under the lease held now."""
        self._term = self._lease.seq

    def end(self) -> None:
        """End the term: nothing of it may be sent any more, whichever instance leads next."""
        self._term = 0

    @property
    def holds(self) -> bool:
        """Whether this term goes on and no other instance can lead."""
        return self._term > 0 and self._lease.seq == self._term and self._lease.holds

    async def wait(self) -> None:
        """Return once the lease is confirmed; raises FenceLost when this term is over."""
        term = self._term
        while not self.holds:
            if not term or self._term != term or self._lease.seq != term:
                raise FenceLost(0, f"{self._lease.service} does not lead any more")
            await self._lease.news()

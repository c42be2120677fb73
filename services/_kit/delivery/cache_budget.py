"""Limits the bytes of live objects that are cached for one cluster, over all kinds."""

from __future__ import annotations

from typing import Final

from services._kit.base.answer_limits import Limits

LARGEST: Final = 256 << 10
"""An object that is larger is read when it is needed."""


class Cache:
    """Counts what is kept; it grows with the number of works, not with what a cluster sends."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used = 0
        self.objects = 0

    @property
    def most(self) -> int:
        """Bytes that may be kept."""
        return self._limits.cache_bytes + self._limits.cache_bytes_per_work * self.objects

    def fits(self, size: int, *, beside: int = 0) -> bool:
        """Whether one more object may be kept, beside bytes that are not counted yet."""
        return size <= LARGEST and self.used + beside + size <= self.most

    def take(self, size: int) -> None:
        """An object is kept."""
        self.used += size
        self.objects += 1

    def give_back(self, size: int) -> None:
        """An object is kept no more."""
        self.used -= size
        self.objects -= 1

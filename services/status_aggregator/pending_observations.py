"""Keeps observations that arrived before the binding they belong to: the two streams have no common order."""

from __future__ import annotations

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey

_MOST_KEYS = 2000


class Early:
    """Observations without an Event yet, by object; the oldest objects are dropped first when there are too many."""

    def __init__(self) -> None:
        self._kept: dict[ObjectKey, list[WorkObserved]] = {}

    def keep(self, event: WorkObserved) -> None:
        """Hold an observation until the binding of its object is known."""
        self._kept.setdefault(event.key, []).append(event)
        while len(self._kept) > _MOST_KEYS:
            del self._kept[next(iter(self._kept))]

    def take(self, key: ObjectKey, uid: str) -> list[WorkObserved]:
        """What was held for the object of this uid, oldest first; anything about an earlier one is dropped."""
        return [event for event in self._kept.pop(key, ()) if event.uid == uid]

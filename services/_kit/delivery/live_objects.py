"""Keeps live objects of one cluster within a limit of bytes; of others it is only known that they exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.manifest import Manifest
from services._kit.base.answer_limits import Limits
from services._kit.kube.list_watch import Kept

LARGEST: Final = 256 << 10
"""An object that is larger is read when it is needed."""
UNCLAIMED: Final = 1000
"""Names of objects without works that are remembered of a kind; beyond, any object may be in the cluster."""

Place = tuple[str, str]
"""Namespace and name."""


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


class Live(Mapping[Place, Manifest]):
    """The live objects of one kind, kept as bytes: a lane has thousands and decodes one at a time.

    Of what does not fit into the cache only the version is known; it is not among the objects here.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._kept: dict[Place, Kept] = {}
        self._elsewhere: dict[Place, str] = {}

    def __getitem__(self, place: Place) -> Manifest:
        return self._kept[place].manifest

    def __contains__(self, place: object) -> bool:
        return place in self._kept

    def __iter__(self) -> Iterator[Place]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def places(self) -> set[Place]:
        """Where objects are known to be, kept or not."""
        return {*self._kept, *self._elsewhere}

    def is_elsewhere(self, place: Place) -> bool:
        """Whether an object is in the cluster that is not kept here."""
        return place in self._elsewhere

    def version(self, place: Place) -> str | None:
        """The version of an object, None where none is known."""
        kept = self._kept.get(place)
        return kept.version if kept is not None else self._elsewhere.get(place)

    def keep(self, kept: Kept) -> None:
        """Keep this state of an object, or its version alone."""
        place = (kept.namespace, kept.name)
        self.drop(place)
        if kept.data and self._cache.fits(len(kept.data)):
            self._kept[place] = kept
            self._cache.take(len(kept.data))
        else:
            self._elsewhere[place] = kept.version

    def drop(self, place: Place) -> None:
        """Forget an object, if it is there."""
        self._elsewhere.pop(place, None)
        before = self._kept.pop(place, None)
        if before is not None:
            self._cache.give_back(len(before.data))

    def clear(self) -> None:
        """Forget all objects."""
        for place in list(self._kept):
            self.drop(place)
        self._elsewhere.clear()


class Unclaimed:
    """Places of objects that bear our mark without a work; from some number on every place may be one of them."""

    def __init__(self) -> None:
        self.count = 0
        self._places: set[Place] = set()
        self._all = True

    def __contains__(self, place: Place) -> bool:
        return not self._all or place in self._places

    def add(self, place: Place) -> None:
        """One more object."""
        self.count += 1
        if len(self._places) < UNCLAIMED:
            self._places.add(place)
        else:
            self._all = self._all and place in self._places

    def discard(self, place: Place) -> None:
        """The object there is known now, or gone."""
        self._places.discard(place)

    def some(self) -> list[str]:
        """Names for people."""
        return ["/".join(place).strip("/") for place in sorted(self._places)[:5]]

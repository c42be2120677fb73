"""Indexes objects of kinds that label selectors of dependencies name, and whose selectors a change of labels concerns.

Objects and selectors are filed under one pair of label and value, so that a change touches only the selectors that may
match; a selector without such a pair is compared with every object of its kind and namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from schemas.keys import ObjectKey
from services._rules.kubernetes.selectors import Selector

KindName = tuple[str, str]
"""API group and kind."""
Pair = tuple[str, str]


class Place(Struct, frozen=True, array_like=True):
    """Where a selector looks: objects of a kind in one namespace (empty for cluster-scoped ones)."""

    group: str
    kind: str
    namespace: str


class Selection(Struct, frozen=True, eq=False):
    """One label selector of an owner."""

    place: Place
    selector: Selector

    @property
    def pair(self) -> Pair | None:
        """A label and the one value that it must have."""
        for item in self.selector.requirements:
            if item.operator == "In" and len(item.values) == 1:
                return item.key, item.values[0]
        return None


class _Seen(Struct, frozen=True, gc=False):
    kind: str
    labels: Mapping[str, str]


class SelectedObjects(Struct):
    """The selectors of all owners, and the objects of their kinds with their labels."""

    _selections: dict[ObjectKey, Sequence[Selection]] = field(default_factory=dict)
    _kinds: Counter[KindName] = field(default_factory=Counter)
    _owners: dict[tuple[Place, Pair | None], set[ObjectKey]] = field(default_factory=dict)
    _seen: dict[ObjectKey, _Seen] = field(default_factory=dict)
    _objects: dict[tuple[Place, Pair | None], set[ObjectKey]] = field(default_factory=dict)

    def follows(self, kind: KindName) -> bool:
        """Whether objects of a kind are indexed, because some selector looks for them."""
        return kind in self._kinds

    def owners(self, kind: KindName) -> list[ObjectKey]:
        """Owners with a selector for a kind, sorted."""
        if kind not in self._kinds:
            return []
        return sorted(
            owner
            for owner, selections in self._selections.items()
            if any((item.place.group, item.place.kind) == kind for item in selections)
        )

    def select(self, owner: ObjectKey, selections: Sequence[Selection]) -> list[KindName]:
        """Take in the selectors of one owner; the kinds that are followed from now on and have to be filled in."""
        if not selections and owner not in self._selections:
            return []
        before = self._selections.pop(owner, ())
        for item in before:
            owners = self._owners.get((item.place, item.pair))
            if owners is not None:
                owners.discard(owner)
                if not owners:
                    del self._owners[item.place, item.pair]
        if selections:
            self._selections[owner] = selections
        new = []
        for item in selections:
            kind = item.place.group, item.place.kind
            if kind not in self._kinds:
                new.append(kind)
            self._kinds[kind] += 1
            self._owners.setdefault((item.place, item.pair), set()).add(owner)
        for item in before:
            self._leave((item.place.group, item.place.kind))
        return new

    def _leave(self, kind: KindName) -> None:
        self._kinds[kind] -= 1
        if not self._kinds[kind]:
            del self._kinds[kind]
            for key in [key for key, seen in self._seen.items() if (key.group, seen.kind) == kind]:
                self._file(key, None)

    def take(self, key: ObjectKey, kind: str, labels: Mapping[str, str] | None) -> list[ObjectKey]:
        """Take in the labels of an object (None: it is gone); the owners of whose selections it came or went."""
        if not self._kinds:
            return []
        before = self._seen.get(key)
        after = _Seen(kind, labels) if labels is not None and (key.group, kind) in self._kinds else None
        if before == after:
            return []
        concerned = set(self._concerned(key, before, after)) | set(self._concerned(key, after, before))
        self._file(key, after)
        return sorted(concerned)

    def _concerned(self, key: ObjectKey, seen: _Seen | None, other: _Seen | None) -> Iterator[ObjectKey]:
        """Owners that select an object with these labels, but not with the others."""
        if seen is None:
            return
        place = Place(key.group, seen.kind, key.namespace)
        for slot in (None, *seen.labels.items()):
            for owner in self._owners.get((place, slot), ()):
                selectors = [item.selector for item in self._selections[owner] if item.place == place]
                if any(
                    selector.matches(seen.labels) and (other is None or not selector.matches(other.labels))
                    for selector in selectors
                ):
                    yield owner

    def _file(self, key: ObjectKey, after: _Seen | None) -> None:
        before = self._seen.pop(key, None)
        if before is not None:
            place = Place(key.group, before.kind, key.namespace)
            for slot in (None, *before.labels.items()):
                found = self._objects[place, slot]
                found.discard(key)
                if not found:
                    del self._objects[place, slot]
        if after is not None:
            self._seen[key] = after
            place = Place(key.group, after.kind, key.namespace)
            for slot in (None, *after.labels.items()):
                self._objects.setdefault((place, slot), set()).add(key)

    def matching(self, selection: Selection) -> Iterable[ObjectKey]:
        """Objects of a followed kind that a selector matches, in no order."""
        found = self._objects.get((selection.place, selection.pair), ())
        return [key for key in found if selection.selector.matches(self._seen[key].labels)]

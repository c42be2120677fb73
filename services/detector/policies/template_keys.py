"""Sets of template keys that are asked for by kind, or by what the templates lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Sequence

from schemas.keys import ObjectKey, PolicyKey


class KeysByKind(MutableSet[ObjectKey]):
    """Keys, and those of one group and resource without a look at the others."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], set[ObjectKey]] = {}

    def of(self, group: str, resource: str) -> Iterable[ObjectKey]:
        """The keys of one kind."""
        return self._kept.get((group, resource), ())

    def add(self, value: ObjectKey) -> None:
        """Enter a key."""
        self._kept.setdefault((value.group, value.resource), set()).add(value)

    def discard(self, value: ObjectKey) -> None:
        """Drop a key, if it is there."""
        held = self._kept.get((value.group, value.resource))
        if held is not None:
            held.discard(value)
            if not held:
                del self._kept[value.group, value.resource]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, ObjectKey) and value in self._kept.get((value.group, value.resource), ())

    def __iter__(self) -> Iterator[ObjectKey]:
        return (key for held in self._kept.values() for key in held)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))


class LackingTemplates:
    """Templates that wait for override policies which do not exist yet."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, tuple[PolicyKey, ...]] = {}
        self._waiting: dict[PolicyKey, set[ObjectKey]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._of)

    def of(self, key: ObjectKey) -> tuple[PolicyKey, ...]:
        """The override policies that a template lacks."""
        return self._of.get(key, ())

    def waiting_for(self, override: PolicyKey) -> Iterable[ObjectKey]:
        """The templates that wait for an override policy."""
        return self._waiting.get(override, ())

    def put(self, key: ObjectKey, overrides: Sequence[PolicyKey]) -> None:
        """Enter what a template lacks; nothing where it waits no longer."""
        for override in self._of.pop(key, ()):
            held = self._waiting[override]
            held.discard(key)
            if not held:
                del self._waiting[override]
        if overrides:
            self._of[key] = tuple(overrides)
            for override in self._of[key]:
                self._waiting.setdefault(override, set()).add(key)

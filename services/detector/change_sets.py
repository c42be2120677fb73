"""Holds back the members of a change set until all of them are in sight, and has them decided as one.

Watches of different kinds deliver separately: what is seen of a set stays out of the state until the last member came,
or until the set is given up. What the members touch is then decided by one key, so that its facts are one batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.policies.change_set_marks import mark_of

REMEMBERED: Final = 1024
"""Sets that were complete: what else is seen of them is taken at once."""
MOST_HELD: Final = 64
"""Sets that may be incomplete at a time; a further one is not held."""
Member = ObjectKey | PolicyKey


class SetKey(Struct, frozen=True):
    """The key of everything that one change set touches."""

    id: str

    def __str__(self) -> str:
        return f"change-set/{self.id}"


class Held(Struct):
    """Members in sight of a set that has `count` of them; None for one that is deleted already."""

    count: int
    members: dict[Member, Manifest | None] = field(default_factory=dict)


class ChangeSets(Struct):
    """Sets of which some members are in sight, and those that are being decided.

    `deciding` maps what a complete set touches to the set: such a key is not decided by itself until the set is.
    """

    held: dict[str, Held] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    touched: dict[str, dict[Member, None]] = field(default_factory=dict)
    deciding: dict[Member, str] = field(default_factory=dict)

    def offer(self, key: Member, manifest: Manifest | None, before: Manifest | None) -> tuple[str, bool]:
        """Whether a change is held back, by the id of its set (empty: it is taken now), and whether that is complete.

        `before` is the object as it was taken last: one that bears the same mark already is no news of the set.
        """
        known = next((name for name, held in self.held.items() if key in held.members), "")
        mark = mark_of(manifest)
        if mark is None or mark[0] in self.ended or mark == mark_of(before):
            if known:
                # The newest state of a member counts, whatever became of its mark.
                self.held[known].members[key] = manifest
            return known, False
        name, count = mark
        if known and known != name:
            del self.held[known].members[key]
        held = self.held.get(name)
        if held is None:
            if len(self.held) >= MOST_HELD:
                return "", False
            held = self.held[name] = Held(count)
        held.members[key] = manifest
        return name, len(held.members) >= held.count

    def release(self, name: str) -> list[tuple[Member, Manifest | None]]:
        """The members in sight of a set that is held no longer: policies before what they select."""
        held = self.held.pop(name, None)
        self.ended[name] = None
        while len(self.ended) > REMEMBERED:
            del self.ended[next(iter(self.ended))]
        if held is None:
            return []
        return sorted(held.members.items(), key=lambda item: order(item[0]))

    def begin(self, name: str, touched: Iterable[Member]) -> SetKey:
        """From now on a set's key decides what its members touch."""
        keys = self.touched.setdefault(name, {})
        keys.update(dict.fromkeys(touched))
        self.deciding.update(dict.fromkeys(keys, name))
        return SetKey(name)

    def finish(self, name: str) -> list[Member]:
        """The set is on record: its keys are decided by themselves again."""
        keys = list(self.touched.pop(name, ()))
        for key in keys:
            if self.deciding.get(key) == name:
                del self.deciding[key]
        return keys

    def clear(self) -> None:
        """Another instance led meanwhile: everything in sight is decided one by one."""
        self.touched.clear()
        self.deciding.clear()


def order(key: Member) -> tuple[int, str]:
    """In which order members are taken and decided: overrides, policies, templates."""
    if isinstance(key, PolicyKey):
        return (0 if "Override" in key.kind else 1), str(key)
    return 2, str(key)

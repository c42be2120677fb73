"""What clients were told of their writes, and what each object may therefore be: the truth that nothing may lose."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from tests.faults.chaos.objects import State

Key = tuple[str, str, str]
"""Kind, namespace, name."""


class Entry(Struct):
    """One object: the last acknowledged write (None: it is not there), and later ones without an answer."""

    acknowledged: State | None = None
    unknown: list[State | None] = []

    def allows(self, found: State | None) -> bool:
        """Whether the object may be like that."""
        return found == self.acknowledged or found in self.unknown


class Ledger:
    """All objects that were ever written."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.counts: Counter[str] = Counter()

    def entry(self, key: Key) -> Entry:
        """That of an object, made on first use."""
        return self.entries.setdefault(key, Entry())

    def acknowledged(self, key: Key, state: State | None) -> None:
        """The server said yes: what was before is superseded, what had no answer can no longer come."""
        self.counts["acknowledged"] += 1
        self.entries[key] = Entry(state)

    def unknown(self, key: Key, state: State | None) -> None:
        """The server gave no answer."""
        self.counts["unknown"] += 1
        self.entry(key).unknown.append(state)

    def wrong(self, key: Key, found: State | None) -> str:
        """Why an object may not be as it was found; nothing when it may."""
        entry = self.entry(key)
        self.counts["checked"] += 1
        if entry.allows(found):
            return ""
        return (
            f"{'/'.join(key)}: the last acknowledged write was {entry.acknowledged}, "
            f"unanswered ones {entry.unknown}, and the control plane holds {found}"
        )

    def forget(self, namespace: str) -> None:
        """A namespace is gone with all that was in it."""
        for key in [key for key in self.entries if key[1] == namespace]:
            self.entries[key] = Entry()

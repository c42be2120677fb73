"""Remembers templates by the PriorityClass that their policy names: they are decided again when it changes."""

from __future__ import annotations

from schemas.keys import ObjectKey

Ranked = dict[str, set[ObjectKey]]


def rank_of(ranked: Ranked, key: ObjectKey) -> str:
    """The PriorityClass by which an object is placed, as far as is remembered; empty for none."""
    return next((name for name, held in ranked.items() if key in held), "")


def rank(ranked: Ranked, key: ObjectKey, name: str) -> None:
    """Remember by which PriorityClass an object is placed; an empty name for none."""
    for other, held in list(ranked.items()):
        if other != name and key in held:
            held.discard(key)
            if not held:
                del ranked[other]
    if name:
        ranked.setdefault(name, set()).add(key)

"""Decides which instance hands a shard group to which other, until all lead about as many."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

SURPLUS: Final = 2
"""With one group more than another instance, handing it over would only turn the two round."""


def next_handover(leading: Mapping[str, Collection[int]], instance: str) -> tuple[int, str] | None:
    """The group that an instance is to hand over now, and its heir; None while it has not too many.

    `leading` names the groups that each live instance leads, the asking one included. Of those that lead most, the
    first by name hands over its last group, to the first by name of those that lead fewest: all that see the same
    instances come to the same handover, and only one takes place at a time.
    """
    if instance not in leading:
        return None
    most = max(len(groups) for groups in leading.values())
    fewest = min(len(groups) for groups in leading.values())
    if most - fewest < SURPLUS or instance != min(name for name, groups in leading.items() if len(groups) == most):
        return None
    heir = min(name for name, groups in leading.items() if len(groups) == fewest)
    return max(leading[instance]), heir

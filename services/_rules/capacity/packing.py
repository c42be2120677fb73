"""Room on single nodes, real or assumed from a resource model, and first-fit placing of component sets.

Source: docs/sources.md#estimators.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

NodeDemand: TypeAlias = tuple[tuple[str, int], ...]


class Room:
    """What is left on one node: amounts (cpu in milli, all others whole) and pod slots."""

    __slots__ = ("free", "pods")

    def __init__(self, free: dict[str, int], pods: int) -> None:
        self.free = free
        self.pods = pods

    def fits(self, demand: NodeDemand) -> int:
        """How many replicas with this demand fit; a resource the node lacks leaves room for none."""
        most = self.pods
        for name, wanted in demand:
            count = self.free.get(name, 0) // wanted
            most = min(most, count)
        return max(0, most)

    def take(self, demand: NodeDemand, replicas: int) -> None:
        """Occupy the node with replicas that fit."""
        self.pods -= replicas
        for name, wanted in demand:
            self.free[name] -= wanted * replicas


Eligible: TypeAlias = Callable[[int, int], bool]
"""Whether component number i may run on node number j."""


def place_set(
    rooms: Sequence[Room],
    components: Sequence[tuple[int, NodeDemand]],
    eligible: Eligible | None = None,
    first: list[int] | None = None,
) -> bool:
    """Place one complete set, each component on the first nodes with room; what was placed stays on failure.

    `first` remembers between sets, for each component, the first node that still had room for it: room only shrinks.
    """
    first = [0] * len(components) if first is None else first
    for index, (replicas, demand) in enumerate(components):
        left, number = replicas, first[index]
        while left > 0 and number < len(rooms):
            may = eligible is None or eligible(index, number)
            fitting = rooms[number].fits(demand) if may else 0
            count = min(left, fitting)
            if count:
                rooms[number].take(demand, count)
                left -= count
            # Either nothing is left to place, or this node has no more room for it.
            number += left > 0
        first[index] = number
        if left > 0:
            return False
    return True


def count_sets(
    rooms: Sequence[Room],
    components: Sequence[tuple[int, NodeDemand]],
    limit: int,
    eligible: Eligible | None = None,
) -> int:
    """How many complete sets can be placed one after another, at most `limit`; uses up the rooms."""
    if not any(replicas > 0 for replicas, _ in components):
        return limit
    count, first = 0, [0] * len(components)
    while count < limit and place_set(rooms, components, eligible, first):
        count += 1
    return count

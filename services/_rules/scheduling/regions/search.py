"""Finds the set of regions of greatest weight that satisfies limits on their number and size.

Source: docs/sources.md#cluster-selection.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

# Steps of one search: sixteen regions are always searched through, more of them as far as whole branches can be left
# out. Beyond it the best set found counts; an exhaustive search of eighty regions would outlive the clusters.
_MOST_STEPS: Final = 1 << 16
# Groups examined for a bound that cost as much as one step.
_GROUPS_PER_STEP: Final = 8


class Group(Struct, frozen=True):
    """A region as the choice sees it: number of clusters and score."""

    name: str
    value: int
    weight: int


class Limits(Struct, frozen=True):
    """How many groups a set may have, and how many members they need together."""

    fewest: int
    most: int
    target: int

    def met(self, count: int, value: int) -> bool:
        """Whether so many groups with so many members satisfy the limits."""
        return value >= self.target and self.fewest <= count <= self.most

    def complete_prefixes(self, groups: Sequence[Group]) -> Iterator[int]:
        """Lengths of the beginnings that satisfy the limits, and did not before their largest group was added."""
        total = largest = 0
        for count, group in enumerate(groups, 1):
            total += group.value
            largest = max(largest, group.value)
            if self.met(count, total) and (count == self.fewest or total - largest < self.target):
                yield count


class Search:
    """Depth-first search for the set of greatest weight, then most members, that is met first.

    Of groups alike in size and weight the earlier ones are taken first, and branches that cannot reach the best known
    set are not entered; neither changes the outcome, but both keep dozens of regions affordable.
    """

    def __init__(self, ordered: Sequence[Group], limits: Limits) -> None:
        self.ordered = ordered
        self.limits = limits
        self.best: list[Group] = []
        self.steps = _MOST_STEPS
        # Members of all groups up to each position: groups are ordered by size, so the last ones are the largest.
        self._members = [0, *accumulate(group.value for group in ordered)]
        self._weights = [group.weight for group in ordered]
        self._heaviest: dict[tuple[int, int], int] = {}
        # Where the next group that differs in size or weight stands.
        self._other = list(range(1, len(ordered) + 1))
        for position in range(len(ordered) - 2, -1, -1):
            if _alike(ordered[position], ordered[position + 1]):
                self._other[position] = self._other[position + 1]

    def run(self) -> list[Group]:
        """The set found, empty where none satisfies the limits."""
        limits, ordered, most = self.limits, self.ordered, self.limits.most
        if limits.met(0, 0):
            return []
        heaviest, members, everywhere = self._heaviest, self._members, self._members[-1]
        best_weight, best_value, met = *self._guess(), False
        path: list[Group] = []
        # Position to go on with at every depth, and weight and members of the path up to there.
        frames = [(0, 0, 0)]
        while frames and self.steps > 0:
            position, weight, value = frames.pop()
            depth = len(frames)
            room = most - depth
            if room <= 0 or position >= len(ordered):
                continue
            # Whether adding one to `room` of the later groups could satisfy the limits and beat the best.
            most_value = value + everywhere - members[max(position, len(ordered) - room)]
            if most_value < limits.target:
                continue
            heavy = heaviest.get((position, room))
            reach = weight + (self._most_weight(position, room) if heavy is None else heavy)
            if reach <= best_weight and (reach < best_weight or most_value < best_value + met):
                continue
            self.steps -= 1
            group = ordered[position]
            frames.append((self._other[position], weight, value))
            del path[depth:]
            path.append(group)
            weight, value = weight + group.weight, value + group.value
            if not limits.met(depth + 1, value):
                frames.append((position + 1, weight, value))
            elif (weight, value) > (best_weight, best_value) or (
                not met and weight == best_weight and value == best_value
            ):
                best_weight, best_value, met, self.best = weight, value, True, list(path)
        return self.best

    def _guess(self) -> tuple[int, int]:
        """Weight and members of a set that is good already: what is no better need not be examined.

        It stands where the search ends early; otherwise the search meets it, or one as good that comes first.
        """
        by_weight = sorted(self.ordered, key=lambda group: (-group.weight, -group.value))
        mark = (-1, -1)
        for groups in (by_weight, self.ordered[::-1]):
            for count in self.limits.complete_prefixes(groups):
                found = groups[:count]
                measure = sum(group.weight for group in found), sum(group.value for group in found)
                if measure > mark:
                    mark, self.best = measure, list(found)
            if self.best:
                break
        return mark

    def _most_weight(self, start: int, room: int) -> int:
        """Weight of the `room` heaviest groups from a position on."""
        found = self._heaviest.get((start, room))
        if found is None:
            later = sorted(self._weights[start:], reverse=True)
            self.steps -= len(later) // _GROUPS_PER_STEP
            found = self._heaviest[start, room] = sum(later[:room])
        return found


def _alike(one: Group, other: Group) -> bool:
    return one.value == other.value and one.weight == other.weight

"""Finds the set of regions of greatest weight that satisfies limits on their number and size (reference 02 §3.6)."""

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import Final

from msgspec import Struct

# Steps of one search: sixteen regions are always searched through, more of them as far as whole branches can be left
# out. Beyond it the best set found counts; an exhaustive search of eighty regions would outlive the clusters.
_MOST_STEPS: Final = 1 << 16
# Groups looked at for a bound that cost as much as one step.
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
        # Weight and members to beat, and whether a set that has them was met already.
        self.mark = (-1, -1)
        self.met = False
        self.steps = _MOST_STEPS
        # Members of all groups up to each position: groups are ordered by size, so the last ones are the largest.
        self._members = [0, *accumulate(group.value for group in ordered)]
        self._heaviest: dict[tuple[int, int], int] = {}
        # Where the next group that differs in size or weight stands.
        self._other = list(range(1, len(ordered) + 1))
        for position in range(len(ordered) - 2, -1, -1):
            if _alike(ordered[position], ordered[position + 1]):
                self._other[position] = self._other[position + 1]

    def run(self) -> list[Group]:
        """The set found, empty where none satisfies the limits."""
        self._guess()
        limits, ordered = self.limits, self.ordered
        if limits.met(0, 0):
            return []
        path: list[Group] = []
        # Position to go on with at every depth, and weight and members of the path up to there.
        frames = [(0, 0, 0)]
        while frames and self.steps > 0:
            position, weight, value = frames.pop()
            del path[len(frames) :]
            if not self._promising(position, limits.most - len(path), weight, value):
                continue
            self.steps -= 1
            group = ordered[position]
            frames.append((self._other[position], weight, value))
            path.append(group)
            weight, value = weight + group.weight, value + group.value
            if limits.met(len(path), value):
                self._record(path, (weight, value))
            else:
                frames.append((position + 1, weight, value))
        return self.best

    def _guess(self) -> None:
        """A set that is good already: what is no better need not be looked at.

        It stands where the search ends early; otherwise the search meets it, or one as good that comes first.
        """
        by_size = self.ordered[::-1]
        by_weight = sorted(self.ordered, key=lambda group: (-group.weight, -group.value))
        for groups in (by_size, by_weight):
            for count in self.limits.complete_prefixes(groups):
                measure = _measure(groups[:count])
                if measure > self.mark:
                    self.mark, self.best = measure, list(groups[:count])

    def _record(self, path: Sequence[Group], measure: tuple[int, int]) -> None:
        if measure > self.mark or (not self.met and measure == self.mark):
            self.mark, self.met, self.best = measure, True, list(path)

    def _promising(self, start: int, room: int, weight: int, value: int) -> bool:
        """Whether adding one to `room` of the later groups could satisfy the limits and beat the mark."""
        if start >= len(self.ordered) or room <= 0:
            return False
        most_value = value + self._members[-1] - self._members[max(start, len(self.ordered) - room)]
        if most_value < self.limits.target:
            return False
        reach = (weight + self._most_weight(start, room), most_value)
        return reach > self.mark or (not self.met and reach == self.mark)

    def _most_weight(self, start: int, room: int) -> int:
        """Weight of the `room` heaviest groups from a position on."""
        found = self._heaviest.get((start, room))
        if found is None:
            later = self.ordered[start:]
            self.steps -= len(later) // _GROUPS_PER_STEP
            found = self._heaviest[start, room] = sum(nlargest(room, (group.weight for group in later)))
        return found


def _measure(groups: Sequence[Group]) -> tuple[int, int]:
    return sum(group.weight for group in groups), sum(group.value for group in groups)


def _alike(one: Group, other: Group) -> bool:
    return one.value == other.value and one.weight == other.weight

"""Reserved pods of one cluster that its status does not show yet: totals by kind of pod, and a journal by position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from typing import Final

from msgspec import Struct, field

from services._rules.capacity.general_estimate import Capacity
from services._rules.capacity.reserved import Needs, PodClass, coarser, less_taken
from services._rules.kubernetes.quantity import Quantity

KINDS: Final = 64
"""Number of kinds of pods kept separately; where there are more, requests count rounded up to powers of two."""
_ENTRIES: Final = 512


class _Run(Struct):
    """Pods of one kind given so far, after each position; `base` stands for what was cut off."""

    base: int = 0
    positions: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)

    def add(self, position: int, pods: int) -> None:
        self.sums.append((self.sums[-1] if self.sums else self.base) + pods)
        self.positions.append(position)
        if len(self.positions) > _ENTRIES:
            half = _ENTRIES // 2
            self.base = self.sums[half - 1]
            del self.positions[:half], self.sums[:half]

    def since(self, position: int) -> int:
        if not self.sums:
            return 0
        place = bisect_right(self.positions, position)
        return self.sums[-1] - (self.sums[place - 1] if place else self.base)


class ClusterTotals:
    """Sums of one cluster; each change costs the kinds that it touches, each question the kinds that there are."""

    def __init__(self) -> None:
        self.version = 0
        """Number of the last change, set by the owner of the totals."""
        self._exact: dict[PodClass, int] = {}
        self._coarse: dict[PodClass, int] | None = None
        """Only while there are more kinds than KINDS."""
        self._amounts: dict[str, int] = {}
        self._coarse_amounts: dict[str, int] = {}
        self._pods = 0
        self._runs: dict[PodClass, _Run] = {}
        self._pending: dict[Hashable, dict[PodClass, int]] = {}
        self._promised: dict[PodClass, int] = {}

    @property
    def totals(self) -> Mapping[PodClass, int]:
        """Pods by kind."""
        return self._exact if self._coarse is None else self._coarse

    def taken_off(self, capacity: Capacity) -> Capacity:
        """A capacity without what was given: what `less_taken` of the totals comes to, for the price of a few sums."""
        if not self._exact:
            return capacity
        if capacity.models is not None:
            return less_taken(capacity, self.totals)
        amounts = self._amounts if self._coarse is None else self._coarse_amounts
        free = {
            name: Quantity(amount.nano - taken, amount.format) if (taken := amounts.get(name)) else amount
            for name, amount in capacity.free.items()
        }
        return Capacity(capacity.known, capacity.pods - self._pods, free, None, {})

    def add(self, needs: Needs, units: int) -> None:
        """Count so many units of some needs more (or less)."""
        for want, pods in needs:
            count = units * pods
            self._pods += count
            _count(self._exact, want, count)
            _sum_up(self._amounts, want, count)
            if len(self._exact) <= KINDS:
                self._coarse = None
            elif self._coarse is None:
                self._coarse, self._coarse_amounts = {}, {}
                for each, total in self._exact.items():
                    self._count_coarse(each, total)
            else:
                self._count_coarse(want, count)

    def _count_coarse(self, want: PodClass, pods: int) -> None:
        coarse = coarser(want)
        if self._coarse is not None:
            _count(self._coarse, coarse, pods)
            _sum_up(self._coarse_amounts, coarse, pods)

    def give(self, key: Hashable, needs: Needs, units: int, position: int | None) -> None:
        """Note what was given at a position of the log; None: it is promised to the object of a key."""
        for want, pods in needs:
            if position is None:
                mine = self._pending.setdefault(key, {})
                mine[want] = mine.get(want, 0) + units * pods
                _count(self._promised, want, units * pods)
            else:
                self._write(want, units * pods, position)

    def keep(self, key: Hashable, position: int | None) -> None:
        """The promise to an object came true at a position; None: it is void."""
        for want, pods in self._pending.pop(key, {}).items():
            _count(self._promised, want, -pods)
            if position is not None:
                self._write(want, pods, position)

    def since(self, position: int) -> list[tuple[PodClass, int]]:
        """Pods by kind that were given after a position, and those that are promised."""
        found = dict(self._promised)
        for want, run in self._runs.items():
            pods = run.since(position)
            if pods:
                found[want] = found.get(want, 0) + pods
        return list(found.items())

    def _write(self, want: PodClass, pods: int, position: int) -> None:
        if want not in self._runs and len(self._runs) >= KINDS:
            want = coarser(want)
            if want not in self._runs and len(self._runs) >= 4 * KINDS:
                del self._runs[min(self._runs, key=lambda item: self._runs[item].positions[-1])]
        self._runs.setdefault(want, _Run()).add(position, pods)


def _sum_up(amounts: dict[str, int], want: PodClass, pods: int) -> None:
    for name, amount in want.demand.requests:
        amounts[name] = amounts.get(name, 0) + amount.nano * pods


def _count(sums: dict[PodClass, int], want: PodClass, pods: int) -> None:
    total = sums.get(want, 0) + pods
    if total:
        sums[want] = total
    else:
        sums.pop(want, None)

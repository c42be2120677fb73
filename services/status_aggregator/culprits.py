"""Finds the clusters whose reports break the aggregation of an object's status, with few attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

Item = dict[str, Any]
"""One aggregated status item of a cluster, as interpreters get it."""

Attempt = Callable[[Collection[str]], Awaitable[Exception | None]]
"""Sums the items without the reports of some clusters, and writes nothing; the problem, None where there is none."""

_KEPT: Final = ("clusterName", "applied", "appliedMessage")


class NoCulprit(Exception):
    """No report is at fault, or too many are: nothing can be summed by leaving some out."""


class Fault(Struct, frozen=True):
    """The clusters whose reports are left out: the reason and the item of each, and whether whole items are."""

    reasons: Mapping[str, str]
    said: Mapping[str, Item]
    whole: bool

    def still(self, items: Sequence[Item]) -> Fault | None:
        """The same for the clusters whose report is unchanged; None without any."""
        same = {item["clusterName"] for item in items if self.said.get(item["clusterName"]) == item}
        if not same:
            return None
        return Fault({name: why for name, why in self.reasons.items() if name in same}, self.said, self.whole)

    def rest(self, items: Sequence[Item]) -> list[Item]:
        """What is left to sum."""
        return without(items, self.reasons, self.whole)


def without(items: Sequence[Item], out: Collection[str], whole: bool) -> list[Item]:
    """The items without those of some clusters (`whole`), or without what these report."""
    if whole:
        return [item for item in items if item["clusterName"] not in out]
    return [
        {**{name: item[name] for name in _KEPT if name in item}, "health": "Unknown"}
        if item["clusterName"] in out
        else item
        for item in items
    ]


def enough(count: int) -> int:
    """Attempts that find three culprits among a number of clusters."""
    return 3 * (count.bit_length() + 1) + 2


async def culprits(
    items: Sequence[Item], problem: Exception, attempt: Attempt, suspects: Collection[str] = ()
) -> dict[str, str]:
    """The clusters without which the items can be summed, each with the reason; `problem` is why they cannot be.

    `suspects` are tried first: clusters at fault before, or with another report since the last sum. Raises NoCulprit
    after `enough` attempts, or where the sum of nothing fails as well.
    """
    names = [str(item["clusterName"]) for item in items]
    left = enough(len(names))

    async def tried(some: Collection[str]) -> Exception | None:
        """What comes of the sum of these clusters."""
        nonlocal left
        if left == 0:
            raise NoCulprit
        left -= 1
        return await attempt(frozenset(names).difference(some))

    if await tried(()) is not None:
        raise NoCulprit
    trusted = [name for name in names if name not in suspects]
    rest, good, failed = [*trusted, *(name for name in names if name in suspects)], 0, problem
    if len(trusted) < len(names) and await tried(trusted) is None:
        good = len(trusted)
    found: dict[str, str] = {}
    while True:
        bad = len(rest)
        while bad - good > 1:
            middle = (good + bad) // 2
            why = await tried(rest[:middle])
            if why is None:
                good = middle
            else:
                bad, failed = middle, why
        found[rest[bad - 1]] = str(failed)
        rest = [*rest[: bad - 1], *rest[bad:]]
        if good == len(rest):
            return found
        why = await tried(rest)
        if why is None:
            return found
        failed = why

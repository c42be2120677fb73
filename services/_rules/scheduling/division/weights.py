"""Division of replicas among clusters by weight: the highest-quotient method of Webster.

Source: docs/sources.md#replica-division.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

# Above this many replicas per cluster the sure part of every share is computed instead of dealt out one by one.
_DEAL_AT_MOST: Final = 2
# Weights up to here keep their order as double-precision numbers.
_EXACT: Final = 2**53
_WEIGHT: Final = itemgetter(1)


class DivisionError(ValueError):
    """What should be divided is no whole number; the message names object and field."""


class TargetCluster(Struct, frozen=True, omit_defaults=True):
    """A cluster of a decision and how many replicas it runs (0 where replicas do not apply)."""

    name: str
    replicas: int = 0


def ties_descend(uid: str) -> bool:
    """Direction in which equal claims are settled: by name downwards, or (False) upwards.

    It is the parity of the 32-bit FNV-1a hash of the uid; odd multiplications leave only the parity of its odd bytes.
    An empty uid always means upwards.
    """
    return uid != "" and sum(uid.encode()) % 2 == 0


def webster(
    seats: int, votes: Mapping[str, int], initial: Mapping[str, int] | None = None, descending: bool = False
) -> dict[str, int]:
    """Seats of every party after `seats` more have been dealt out, by name ascending.

    Each seat goes to the greatest votes / (2 * seats held + 1), compared as double-precision numbers; ties go to the
    party with fewer seats, then by name in the given direction. Parties known only from `initial` have no votes.
    """
    held = dict.fromkeys(votes, 0)
    if initial:
        held.update(initial)
    names = sorted(held)
    if not names or seats <= 0:
        return {name: held[name] for name in names}
    left = seats
    if not initial and seats > _DEAL_AT_MOST * len(names):
        left -= _deal_sure_seats(seats, votes, held)
    ranks = range(len(names), 0, -1) if descending else range(len(names))
    queue = [
        (-(float(votes.get(name, 0)) / (2 * held[name] + 1)), held[name], rank, name)
        for name, rank in zip(names, ranks, strict=True)
    ]
    heapify(queue)
    for _ in range(left):
        _, count, rank, name = queue[0]
        count += 1
        held[name] = count
        heapreplace(queue, (-(float(votes.get(name, 0)) / (2 * count + 1)), count, rank, name))
    return {name: held[name] for name in names}


def _deal_sure_seats(seats: int, votes: Mapping[str, int], held: dict[str, int]) -> int:
    """Give every party the seats whose quotient lies above a bound that fewer than `seats` quotients reach.

    The quotients above any bound are a prefix of the order in which seats are dealt, so this changes no result.
    """
    total = float(sum(votes.values()))
    bound = total / (2.0 * seats - len(votes))
    if bound <= 0:
        return 0
    shares: dict[str, int] = {}
    for name, vote in votes.items():
        weight = float(vote)
        count = max(int((weight / bound + 1) / 2), 0)
        while count and weight / (2 * count - 1) <= bound:
            count -= 1
        while weight / (2 * count + 1) > bound:
            count += 1
        shares[name] = count
    dealt = sum(shares.values())
    if dealt > seats:
        return 0
    held.update(shares)
    return dealt


def divide(replicas: int, weights: Sequence[tuple[str, int]], descending: bool) -> list[tuple[str, int]]:
    """Shares of a fresh division by name, clusters without a share left out; no weight at all gives no shares."""
    if replicas <= 0 or not weights:
        return []
    votes = dict(_heaviest(replicas, weights, descending) if replicas < len(weights) else weights)
    if not any(votes.values()):
        return []
    return [(name, count) for name, count in webster(replicas, votes, None, descending).items() if count]


def _heaviest(count: int, weights: Sequence[tuple[str, int]], descending: bool) -> Sequence[tuple[str, int]]:
    """The entries that can get one of `count` replicas: every one of them comes before all others for its first."""
    ranked = sorted(map(_WEIGHT, weights), reverse=True)
    least = ranked[count - 1]
    if ranked[0] > _EXACT or least <= 0:
        return weights
    above = [item for item in weights if item[1] > least]
    level = sorted((item for item in weights if item[1] == least), reverse=descending)
    return above + level[: count - len(above)]


def allocate_by_weight(
    replicas: int, weights: Sequence[tuple[str, int]], initial: Sequence[TargetCluster], uid: str
) -> tuple[list[TargetCluster], int]:
    """Clusters with their replicas after `replicas` more were divided by weight, and how many could not be placed.

    What clusters already hold counts as seats; without any weight nothing is placed.
    """
    votes = dict(weights)
    if sum(votes.values()) == 0 or (replicas == 0 and initial):
        return list(initial), replicas
    seats = webster(replicas, votes, {item.name: item.replicas for item in initial}, ties_descend(uid))
    return [TargetCluster(name, count) for name, count in seats.items()], 0


def spread_by_targets(
    replicas: int, targets: Iterable[TargetCluster], initial: Sequence[TargetCluster], uid: str
) -> list[TargetCluster]:
    """Divide by the replicas of `targets` as weights."""
    return allocate_by_weight(replicas, [(item.name, item.replicas) for item in targets], initial, uid)[0]


def merge_targets(old: Sequence[TargetCluster], new: Sequence[TargetCluster]) -> list[TargetCluster]:
    """Sum of two lists: entries of `new` in order with what `old` has added, then the clusters only `old` has."""
    if not old:
        return list(new)
    if not new:
        return list(old)
    held = {item.name: item.replicas for item in old}
    merged = [TargetCluster(item.name, item.replicas + held.pop(item.name, 0)) for item in new]
    return merged + [TargetCluster(name, count) for name, count in held.items()]


def divide_job_completions(job: Mapping[str, Any], clusters: Sequence[TargetCluster]) -> list[TargetCluster] | None:
    """Completions of a Job manifest per cluster, in proportion to its replicas there; None when it names none.

    Raises DivisionError when the field is no whole number.
    """
    spec = job.get("spec") or {}
    if "completions" not in spec:
        return None
    completions = spec["completions"]
    metadata = job.get("metadata") or {}
    if not isinstance(completions, int) or isinstance(completions, bool):
        raise DivisionError(
            f"Job {metadata.get('namespace', '')}/{metadata.get('name', '')}: .spec.completions is {completions!r},"
            " it must be a whole number"
        )
    return spread_by_targets(completions, clusters, (), metadata.get("uid", ""))

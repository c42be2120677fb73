"""Selection by region: scores of regions, the choice among sets of regions, and their clusters (02 §3.4–3.6)."""

from collections.abc import Sequence

from msgspec import Struct

from services._rules.scheduling.candidates import canonical
from services._rules.scheduling.model import BindingView, Candidate, Failure
from services._rules.scheduling.placement import SpreadConstraint

# Weight of capacity against scores in the score of a region.
_CAPACITY_WEIGHT = 1000


class Group(Struct, frozen=True):
    """A region as the choice sees it: number of clusters and score."""

    name: str
    value: int
    weight: int


def select_by_region(
    ranked: Sequence[Candidate], binding: BindingView, region: SpreadConstraint, cluster: SpreadConstraint
) -> list[Candidate]:
    """First cluster of every chosen region, then the best of the others; raises Failure of kind Error."""
    members: dict[str, list[Candidate]] = {}
    for item in ranked:
        if item.cluster.region:
            members.setdefault(item.cluster.region, []).append(item)
    if len(members) < region.min_groups:
        raise Failure("Error", "the number of feasible region is less than spreadConstraint.MinGroups")
    groups = [
        Group(name, len(items), region_score(items, binding, region.min_groups, cluster.min_groups))
        for name, items in members.items()
    ]
    chosen = choose_groups(groups, region.min_groups, region.max_groups, cluster.min_groups)
    if not chosen:
        raise Failure("Error", "the number of clusters is less than the cluster spreadConstraint.MinGroups")
    selected = [members[group.name][0] for group in chosen]
    pool = [item for group in chosen for item in members[group.name][1:]]
    missing = min(len(selected) + len(pool), cluster.max_groups) - len(selected)
    if missing > 0:
        pool.sort(key=canonical)
        selected += pool[:missing]
    return selected


def region_score(items: Sequence[Candidate], binding: BindingView, min_regions: int, min_clusters: int) -> int:
    """How well a region suits: by clusters that hold everything when duplicated, by capacity when divided."""
    if binding.placement.duplicated:
        fitting = [item.score for item in items if item.avail >= binding.replicas]
        return len(fitting) * _CAPACITY_WEIGHT + sum(fitting) // len(fitting) if fitting else 0
    target = -(-binding.replicas // min_regions) if min_regions > 0 else binding.replicas
    wanted = max(min_clusters, min_regions)
    room = score = count = 0
    for item in items:
        room += item.avail
        score += item.score
        count += 1
        if count >= wanted and room >= target:
            break
    if room < target:
        return room * _CAPACITY_WEIGHT + score // len(items)
    return target * _CAPACITY_WEIGHT + score // count


def choose_groups(groups: Sequence[Group], fewest: int, most: int, target: int) -> list[Group]:
    """Groups with at least `target` members together, `fewest` to `most` of them, of the greatest total weight.

    Where the heaviest set begins with a smaller set that also satisfies the limits, the smaller one is taken.
    """
    if not groups:
        return []
    ordered = sorted(groups, key=lambda item: (item.value, -item.weight, item.name))
    paths = _paths(ordered, fewest, most, target)
    if not paths:
        return []
    ranked = sorted(
        (sorted(path, key=lambda item: (-item.weight, item.name)) for path in paths),
        key=lambda path: (-sum(item.weight for item in path), -sum(item.value for item in path)),
    )
    best = ranked[0]
    for path in ranked[1:]:
        if len(path) < len(best) and best[: len(path)] == path:
            best = path
    return best


def _paths(ordered: Sequence[Group], fewest: int, most: int, target: int) -> list[list[Group]]:
    """Sets of groups that satisfy the limits, smallest sufficient ones only, in order of enumeration."""
    if len(ordered) == fewest:
        return [list(ordered)] if sum(item.value for item in ordered) >= target else []
    found: list[list[Group]] = []
    path: list[Group] = []

    def extend(start: int, value: int) -> None:
        if value >= target and fewest <= len(path) <= most:
            found.append(list(path))
            return
        if len(path) >= most:
            return
        for position in range(start, len(ordered)):
            path.append(ordered[position])
            extend(position + 1, value + ordered[position].value)
            path.pop()

    extend(0, 0)
    return found

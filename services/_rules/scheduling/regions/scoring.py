"""Selection by region: scores of regions, the choice among sets of regions, and their clusters.

Source: docs/sources.md#cluster-selection.
"""

from collections.abc import Mapping, Sequence

from services._rules.scheduling.candidates import canonical
from services._rules.scheduling.compiled_placement import SpreadConstraint
from services._rules.scheduling.regions.search import Group, Limits, Search
from services._rules.scheduling.scheduling_views import BindingView, Candidate, Failure

__all__ = ["Group", "by_region", "choose_groups", "region_score", "select_by_region", "weighed"]

# Weight of capacity against scores in the score of a region.
_CAPACITY_WEIGHT = 1000


def select_by_region(
    ranked: Sequence[Candidate], binding: BindingView, region: SpreadConstraint, cluster: SpreadConstraint
) -> list[Candidate]:
    """First cluster of every chosen region, then the best of the others; raises Failure of kind Error."""
    members = by_region(ranked)
    if len(members) < region.min_groups:
        raise Failure("Error", "the number of feasible region is less than spreadConstraint.MinGroups")
    groups = weighed(members, binding, region, cluster)
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


def by_region(ranked: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """Candidates by region, in the order of their ranking; those without a region are left out."""
    members: dict[str, list[Candidate]] = {}
    for item in ranked:
        region = item.cluster.region
        if region:
            members.setdefault(region, []).append(item)
    return members


def weighed(
    members: Mapping[str, Sequence[Candidate]],
    binding: BindingView,
    region: SpreadConstraint,
    cluster: SpreadConstraint,
) -> list[Group]:
    """Every region with its number of clusters and its score."""
    return [
        Group(name, len(items), region_score(items, binding, region.min_groups, cluster.min_groups))
        for name, items in members.items()
    ]


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

    Sets are met by adding groups in order of size and a set is not added to once it satisfies the limits. Where the
    heaviest begins with a smaller set that can be met so, the smallest of these is taken.
    """
    ordered = sorted(groups, key=lambda item: (item.value, -item.weight, item.name))
    if len(ordered) == fewest:
        enough = sum(item.value for item in ordered) >= target
        return sorted(ordered, key=_heaviest_first) if enough else []
    limits = Limits(fewest, most, target)
    best = sorted(Search(ordered, limits).run(), key=_heaviest_first)
    shortest = next(limits.complete_prefixes(best), len(best))
    return best[:shortest]


def _heaviest_first(group: Group) -> tuple[int, str]:
    return -group.weight, group.name

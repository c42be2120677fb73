"""Selection by region: scores of regions, the choice among sets of regions, and their clusters (02 §3.4–3.6)."""

from collections.abc import Mapping, Sequence

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
    best = sorted(_Search(ordered, fewest, most, target).run(), key=_heaviest_first)
    for count in range(1, len(best)):
        if _complete(best[:count], fewest, most, target):
            return best[:count]
    return best


def _heaviest_first(group: Group) -> tuple[int, str]:
    return -group.weight, group.name


def _complete(groups: Sequence[Group], fewest: int, most: int, target: int) -> bool:
    """Whether a set satisfies the limits, and did not before its largest group was added."""
    total = sum(group.value for group in groups)
    if total < target or not fewest <= len(groups) <= most:
        return False
    largest = max((group.value for group in groups), default=0)
    return len(groups) == fewest or total - largest < target


class _Search:
    """Depth-first search for the set of greatest weight, then most members, that is met first.

    Of groups alike in size and weight the earlier ones are taken first, and branches that cannot reach the best known
    set are not entered; neither changes the outcome, but both keep dozens of regions affordable.
    """

    def __init__(self, ordered: Sequence[Group], fewest: int, most: int, target: int) -> None:
        self.ordered = ordered
        self.fewest = fewest
        self.most = most
        self.target = target
        self.best: list[Group] = []
        # Weight and members to beat, and whether a set that has them was met already.
        self.mark = (-1, -1)
        self.met = False

    def run(self) -> list[Group]:
        """The set found, empty where none satisfies the limits."""
        by_weight = sorted(self.ordered, key=lambda group: (-group.weight, -group.value))
        for count in range(self.fewest, min(self.most, len(by_weight)) + 1):
            if _complete(by_weight[:count], self.fewest, self.most, self.target):
                self.mark = max(self.mark, _measure(by_weight[:count]))
        self._extend([], 0, 0, 0)
        return self.best

    def _extend(self, path: list[Group], start: int, weight: int, value: int) -> None:
        if value >= self.target and self.fewest <= len(path) <= self.most:
            if (weight, value) > self.mark or (not self.met and (weight, value) == self.mark):
                self.mark, self.met, self.best = (weight, value), True, list(path)
            return
        room = self.most - len(path)
        if room <= 0 or not self._promising(start, room, weight, value):
            return
        for position in range(start, len(self.ordered)):
            group = self.ordered[position]
            if position > start and _alike(group, self.ordered[position - 1]):
                continue
            path.append(group)
            self._extend(path, position + 1, weight + group.weight, value + group.value)
            path.pop()

    def _promising(self, start: int, room: int, weight: int, value: int) -> bool:
        """Whether adding at most `room` of the later groups could satisfy the limits and beat the mark."""
        later = self.ordered[start:]
        # Later groups are ordered by size, so the last ones are the largest.
        most_value = value + sum(group.value for group in later[-room:])
        if most_value < self.target:
            return False
        most_weight = weight + sum(sorted((group.weight for group in later), reverse=True)[:room])
        reach = (most_weight, most_value)
        return reach > self.mark or (not self.met and reach == self.mark)


def _measure(groups: Sequence[Group]) -> tuple[int, int]:
    return sum(group.weight for group in groups), sum(group.value for group in groups)


def _alike(one: Group, other: Group) -> bool:
    return one.value == other.value and one.weight == other.weight

"""Which of the ranked clusters are used, as far as spread constraints narrow them down.

Source: docs/sources.md#cluster-selection.
"""

from collections.abc import Sequence

from services._rules.scheduling.compiled_placement import SpreadConstraint
from services._rules.scheduling.regions.scoring import select_by_region
from services._rules.scheduling.scheduling_views import BindingView, Candidate, Failure


def select(ranked: Sequence[Candidate], binding: BindingView, counts_sets: bool) -> Sequence[Candidate]:
    """Selected clusters; raises Failure of kind Error where the constraints cannot be met."""
    placement = binding.placement
    constraints = placement.constraints
    if not placement.raw.spread_constraints or placement.static_weighting:
        return ranked
    need = None if placement.duplicated else 1 if counts_sets else binding.replicas
    region, cluster = constraints.get("region"), constraints.get("cluster")
    if region is not None:
        return select_by_region(ranked, binding, region, cluster or SpreadConstraint())
    if cluster is not None:
        return select_by_cluster(ranked, need, cluster)
    raise Failure("Error", "just support cluster and region spread constraint")


def select_by_cluster(
    ranked: Sequence[Candidate], need: int | None, constraint: SpreadConstraint
) -> Sequence[Candidate]:
    """The first clusters of the ranking, exchanged from the back for roomier ones until `need` replicas fit.

    `need` None means that capacity does not matter. Raises Failure of kind Error.
    """
    if len(ranked) < constraint.min_groups:
        raise Failure("Error", "the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = max(min(len(ranked), constraint.max_groups), 0)
    chosen = list(ranked[:count])
    if need is None:
        return chosen
    room = sum(item.avail for item in chosen)
    if room < need:
        rest = list(ranked[count:])
        for place in range(count - 1, -1, -1):
            best = _roomier(rest, chosen[place].avail)
            if best is not None:
                room += rest[best].avail - chosen[place].avail
                chosen[place], rest[best] = rest[best], chosen[place]
            if room >= need:
                break
    if room < need or count <= 0:
        raise Failure("Error", f"no enough resource when selecting {count} clusters")
    return chosen


def _roomier(rest: Sequence[Candidate], avail: int) -> int | None:
    """Position of the first cluster with the most room, if that is more than `avail`."""
    best = None
    for position, item in enumerate(rest):
        if item.avail > avail:
            best, avail = position, item.avail
    return best

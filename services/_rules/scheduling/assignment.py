"""How many replicas each selected cluster gets (docs/sources.md#replica-division).

An assignment is planned first (what is kept, how many replicas are to be divided, by which weights) and then carried
out, so that an explanation can show the same plan that the decision followed.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from services._rules.scheduling.compiled_placement import CompiledPlacement
from services._rules.scheduling.division.weights import TargetCluster, divide, merge_targets, ties_descend
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.scheduling_views import BindingView, Candidate, ClusterView, Failure

Mode: TypeAlias = Literal[
    "everywhere", "duplicated", "static weights", "fresh scale", "scale down", "scale up", "no change"
]


_NAME: Final = attrgetter("name")
_COUNT: Final = itemgetter(1)


class Plan(Struct, frozen=True):
    """What is kept, how many replicas are divided besides, and by which weights."""

    mode: Mode
    demand: int = 0
    weights: Sequence[tuple[str, int]] = ()
    base: Sequence[TargetCluster] = ()


def assign(
    index: ClusterIndex, selected: Sequence[Candidate], binding: BindingView, fresh: bool, overflow: bool
) -> list[TargetCluster]:
    """Target clusters in order, without those that get nothing.

    `fresh` divides from scratch instead of building on what runs; `overflow` fills tiers one after another.
    Raises Failure.
    """
    result: list[TargetCluster] = []
    for plan in plans(index, selected, binding, fresh, overflow):
        result += carry_out(plan, selected, binding)
    return result


def plans(
    index: ClusterIndex, selected: Sequence[Candidate], binding: BindingView, fresh: bool, overflow: bool
) -> list[Plan]:
    """Plans whose results together are the assignment; more than one only with overflow tiers. Raises Failure."""
    if not selected:
        raise Failure("Error", "no clusters available to schedule")
    if (binding.replicas <= 0 and binding.demand is None) or len(binding.components) > 1:
        return [Plan("everywhere")]
    match binding.placement.strategy:
        case "Duplicated":
            return [Plan("duplicated", binding.replicas)]
        case "StaticWeight":
            return [Plan("static weights", binding.replicas, static_weights(index, selected, binding))]
        case "Unsupported":
            raise _unsupported(binding)
        case "DynamicWeight" | "Aggregated":
            if overflow:
                return _plan_tiers(selected, binding, fresh)
            return [_plan_dynamic(selected, binding, binding.replicas, fresh)]


def carry_out(plan: Plan, selected: Sequence[Candidate], binding: BindingView) -> Iterable[TargetCluster]:
    """Targets of one plan, clusters without replicas left out where replicas apply."""
    match plan.mode:
        case "everywhere":
            return [TargetCluster(item.name) for item in selected]
        case "duplicated":
            return [TargetCluster(item.name, plan.demand) for item in selected] if plan.demand > 0 else []
        case "no change":
            return [item for item in plan.base if item.replicas]
        case _:
            shares = divide(plan.demand, plan.weights, ties_descend(binding.uid))
            targets = [TargetCluster(name, count) for name, count in shares]
            return [item for item in merge_targets(plan.base, targets) if item.replicas] if plan.base else targets


def _unsupported(binding: BindingView) -> Failure:
    scheduling = binding.placement.raw.replica_scheduling
    kind = scheduling.replica_scheduling_type if scheduling else ""
    preference = scheduling.replica_division_preference if scheduling else ""
    return Failure(
        "Error",
        f"unsupported replica scheduling strategy, replicaSchedulingType: {kind},"
        f" replicaDivisionPreference: {preference}, please try another scheduling strategy",
    )


def static_weights(
    index: ClusterIndex, selected: Sequence[Candidate], binding: BindingView
) -> Sequence[tuple[str, int]]:
    """Weight of each selected cluster: the greatest of the rules that match it, or 1 for all where none matches any."""
    weights = _weights_of_all(index, binding.placement)
    names = set(map(_NAME, selected))
    # In name order, which later sorting finds done.
    return [item for item in weights.items() if item[0] in names] or [(name, 1) for name in sorted(names)]


def _weights_of_all(index: ClusterIndex, placement: CompiledPlacement) -> dict[str, int]:
    """Static weights of all clusters that some rule matches; one per placement and generation of clusters."""

    def add(weights: dict[str, int], cluster: ClusterView) -> None:
        weight = max((weight for matches, weight in placement.weights if matches(cluster)), default=0)
        if weight > 0:
            weights[cluster.name] = weight

    def make() -> dict[str, int]:
        weights: dict[str, int] = {}
        for cluster in index.clusters if placement.weights else ():
            add(weights, cluster)
        return weights

    def carry_over(weights: dict[str, int], changed: list[str]) -> dict[str, int]:
        names = set(changed)
        carried = {name: weight for name, weight in weights.items() if name not in names}
        for name in changed if placement.weights else ():
            if name in index.by_name:
                add(carried, index.by_name[name])
        return carried

    return index.remember(("weights", placement), make, carry_over)


def _plan_tiers(selected: Sequence[Candidate], binding: BindingView, fresh: bool) -> list[Plan]:
    """Fill the tiers in order, each up to what it can hold."""
    tiers: dict[int, list[Candidate]] = {}
    for item in selected:
        tiers.setdefault(item.tier, []).append(item)
    found = []
    left = binding.replicas
    for tier in sorted(tiers):
        members = tiers[tier]
        share = min(left, sum(item.avail for item in members))
        found.append(_plan_dynamic(members, binding, share, fresh))
        left -= share
        if left <= 0:
            break
    if left > 0:
        raise Failure("Unschedulable", "Clusters available replicas are not enough to schedule.")
    return found


def _plan_dynamic(selected: Sequence[Candidate], binding: BindingView, replicas: int, fresh: bool) -> Plan:
    """Divide by capacity, keeping what runs unless `fresh`."""
    running: list[TargetCluster] = []
    if binding.clusters:
        names = set(map(_NAME, selected))
        running = [item for item in binding.clusters if item.name in names]
    if fresh:
        held = {item.name: item.replicas for item in running}
        room = [(item.name, item.alloc + held.get(item.name, 0)) for item in selected]
        return _plan_by_room("fresh scale", room, replicas, (), binding)
    assigned = sum(item.replicas for item in running)
    if assigned > replicas:
        return _plan_by_room("scale down", [(item.name, item.replicas) for item in running], replicas, (), binding)
    if assigned < replicas:
        room = [(item.name, item.alloc) for item in selected]
        return _plan_by_room("scale up", room, replicas - assigned, running, binding)
    return Plan("no change", base=running)


def _plan_by_room(
    mode: Mode, room: list[tuple[str, int]], demand: int, base: Sequence[TargetCluster], binding: BindingView
) -> Plan:
    """Divide `demand` by room and add it to the base."""
    total = sum(map(_COUNT, room))
    if total < demand:
        failed = "failed to do fresh scale" if mode == "fresh scale" else f"failed to {mode}"
        shortage = f"Clusters available replicas {total} are not enough to schedule."
        raise Failure("Unschedulable", f"{failed}: {shortage}")
    if binding.placement.strategy == "Aggregated":
        room = _sufficient_prefix(room, demand, base)
    return Plan(mode, demand, room, base)


def _sufficient_prefix(
    room: list[tuple[str, int]], demand: int, base: Sequence[TargetCluster]
) -> list[tuple[str, int]]:
    """The fewest clusters that hold the demand: those that run replicas first, then the roomiest."""
    room = sorted(room, key=_COUNT, reverse=True)
    running = {item.name for item in base if item.replicas > 0}
    if running:
        room = [item for item in room if item[0] in running] + [item for item in room if item[0] not in running]
    total = 0
    for position, (_, count) in enumerate(room):
        total += count
        if total >= demand:
            return room[: position + 1]
    return room

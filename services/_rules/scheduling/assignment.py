"""How many replicas each selected cluster gets (reference 02 §4)."""

from collections.abc import Sequence

from services._rules.division import TargetCluster, divide, merge_targets, ties_descend
from services._rules.scheduling.model import BindingView, Candidate, Failure

Targets = list[TargetCluster]


def assign(selected: Sequence[Candidate], binding: BindingView, fresh: bool, overflow: bool) -> Targets:
    """Target clusters in order, without those that get nothing.

    `fresh` divides anew instead of building on what runs; `overflow` fills tiers one after another.
    Raises Failure.
    """
    if not selected:
        raise Failure("Error", "no clusters available to schedule")
    if (binding.replicas <= 0 and binding.demand is None) or len(binding.components) > 1:
        return [TargetCluster(item.name) for item in selected]
    strategy = binding.placement.strategy
    if strategy == "Duplicated":
        return [TargetCluster(item.name, binding.replicas) for item in selected] if binding.replicas > 0 else []
    if strategy == "StaticWeight":
        return _static(selected, binding)
    if strategy == "Unsupported":
        raise _unsupported(binding)
    if overflow:
        return _by_tiers(selected, binding, fresh)
    return [item for item in _dynamic(selected, binding, binding.replicas, fresh) if item.replicas]


def _unsupported(binding: BindingView) -> Failure:
    scheduling = binding.placement.raw.replica_scheduling
    kind = scheduling.replica_scheduling_type if scheduling else ""
    preference = scheduling.replica_division_preference if scheduling else ""
    return Failure(
        "Error",
        f"unsupported replica scheduling strategy, replicaSchedulingType: {kind},"
        f" replicaDivisionPreference: {preference}, please try another scheduling strategy",
    )


def static_weights(selected: Sequence[Candidate], binding: BindingView) -> list[tuple[str, int]]:
    """Weight of each selected cluster: the greatest of the rules that match it, or 1 for all where none matches any."""
    rules = binding.placement.weights
    if rules:
        weighted = []
        for item in selected:
            weight = max((weight for matches, weight in rules if matches(item.cluster)), default=0)
            if weight > 0:
                weighted.append((item.name, weight))
        if weighted:
            return weighted
    return [(item.name, 1) for item in selected]


def _static(selected: Sequence[Candidate], binding: BindingView) -> Targets:
    shares = divide(binding.replicas, static_weights(selected, binding), ties_descend(binding.uid))
    return [TargetCluster(name, count) for name, count in shares]


def _by_tiers(selected: Sequence[Candidate], binding: BindingView, fresh: bool) -> Targets:
    """Fill the tiers in order, each up to what it can hold."""
    tiers: dict[int, list[Candidate]] = {}
    for item in selected:
        tiers.setdefault(item.tier, []).append(item)
    result: Targets = []
    left = binding.replicas
    for tier in sorted(tiers):
        members = tiers[tier]
        share = min(left, sum(item.avail for item in members))
        result += _dynamic(members, binding, share, fresh)
        left -= share
        if left <= 0:
            break
    if left > 0:
        raise Failure("Unschedulable", "Clusters available replicas are not enough to schedule.")
    return [item for item in result if item.replicas]


def _dynamic(selected: Sequence[Candidate], binding: BindingView, replicas: int, fresh: bool) -> Targets:
    """Divide by capacity, keeping what runs unless `fresh`."""
    names = {item.name for item in selected} if binding.clusters else set()
    running = [item for item in binding.clusters if item.name in names]
    if fresh:
        held = {item.name: item.replicas for item in running}
        room = [(item.name, item.alloc + held.get(item.name, 0)) for item in selected]
        return _share_out(room, replicas, (), binding, "failed to do fresh scale: ")
    assigned = sum(item.replicas for item in running)
    if assigned > replicas:
        room = [(item.name, item.replicas) for item in running]
        return _share_out(room, replicas, (), binding, "failed to scale down: ")
    if assigned < replicas:
        room = [(item.name, item.alloc) for item in selected]
        return _share_out(room, replicas - assigned, running, binding, "failed to scale up: ")
    return running


def _share_out(
    room: list[tuple[str, int]], demand: int, base: Sequence[TargetCluster], binding: BindingView, prefix: str
) -> Targets:
    """Divide `demand` by room and add it to the base."""
    total = sum(count for _, count in room)
    if total < demand:
        raise Failure("Unschedulable", f"{prefix}Clusters available replicas {total} are not enough to schedule.")
    if binding.placement.strategy == "Aggregated":
        room = _sufficient_prefix(room, demand, base)
    shares = divide(demand, room, ties_descend(binding.uid))
    return merge_targets(base, [TargetCluster(name, count) for name, count in shares])


def _sufficient_prefix(
    room: list[tuple[str, int]], demand: int, base: Sequence[TargetCluster]
) -> list[tuple[str, int]]:
    """The fewest clusters that hold the demand: those that run replicas first, then the roomiest."""
    room = sorted(room, key=lambda item: -item[1])
    running = {item.name for item in base if item.replicas > 0}
    if running:
        room = [item for item in room if item[0] in running] + [item for item in room if item[0] not in running]
    total = 0
    for position, (_, count) in enumerate(room):
        total += count
        if total >= demand:
            return room[: position + 1]
    return room

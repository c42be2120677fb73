"""Demands of workloads, capacities of clusters, and the general estimate of how much fits (docs/sources.md#estimators).

The general estimate reads only the status of a cluster: sums over its nodes, or counts of nodes by resource model.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from services._rules.capacity.packing import Room, count_sets, place_set
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to, is_node_resource, node_units
from services._rules.kubernetes.quantity import NANO, Quantity, QuantityError

ModelNodes: TypeAlias = tuple[int, dict[str, int], int]

MAX_REPLICAS: Final = 2**31 - 1
PODS_PER_MODEL_NODE: Final = 110
# Nodes of one grade on which sets are placed one by one; no real cluster has that many.
_MOST_MODEL_NODES: Final = 1 << 13
_MILLI: Final = 10**6
_MEMO_SIZE: Final = 256


class Demand(Struct, frozen=True, eq=False):
    """What one replica asks for; equal requests are one object, so it serves as a cache key."""

    requests: tuple[tuple[str, Quantity], ...]
    # Positive requests as (resource, nano-units per counted unit, counted units): cpu in milli, all others whole.
    counted: tuple[tuple[str, int, int], ...]
    # The part of `counted` that is compared with single nodes.
    on_node: tuple[tuple[str, int], ...]


class Component(Struct, frozen=True, eq=False):
    """One of several pod templates of a workload: its replicas per set and what each asks for."""

    name: str
    replicas: int
    demand: Demand | None
    claim: Any = None
    priority_class: str = ""


class Assumed(Struct, frozen=True, eq=False):
    """A workload that was sent to a cluster and may not yet show in its usage."""

    namespace: str
    components: tuple[Component, ...]


class Capacity(Struct, frozen=True, eq=False):
    """Capacity of one cluster by its status, computed once per cluster fact."""

    known: bool
    pods: int
    # Allocatable less what is allocated and being allocated.
    free: dict[str, Quantity]
    # Usable resource models by grade as (count of nodes, amounts on each, pod slots on each); None without any.
    models: tuple[ModelNodes, ...] | None
    # Estimates already made, by demand and whether models were used.
    memo: dict[tuple[Demand | None, bool], int]

    def differs(self, other: "Capacity") -> bool:
        """Whether another look found other room."""
        return (self.pods, self.free, self.models) != (other.pods, other.free, other.models)


NO_DEMAND: Final = Demand((), (), ())


def demand_of(requests: Mapping[str, Any] | None) -> Demand:
    """Demand of a resource list; raises quantity.QuantityError."""
    try:
        return _demand(tuple(sorted((requests or {}).items())))
    except (TypeError, AttributeError):
        # Lists and objects cannot be kept in memory under their value; that is what is wrong with them.
        raise QuantityError(f"{requests!r:.200} is not a list of resources: write a quantity for each name") from None


@lru_cache(maxsize=8192)
def _demand(requests: tuple[tuple[str, Any], ...]) -> Demand:
    if not requests:
        return NO_DEMAND
    parsed = tuple((name, quantity.parse(text)) for name, text in requests)
    counted = tuple(
        (name, _MILLI, amount.milli_value()) if name == "cpu" else (name, NANO, amount.value())
        for name, amount in parsed
        if amount.value() > 0
    )
    return Demand(parsed, counted, tuple((name, units) for name, _, units in counted if is_node_resource(name)))


def component_of(manifest: Any) -> Component:
    """Read one entry of `spec.components`; raises quantity.QuantityError, ValueError or TypeError naming the field."""
    if not isinstance(manifest, dict):
        raise TypeError(f"components: {manifest!r:.64} is not an object")
    name, replicas = manifest.get("name", ""), manifest.get("replicas") or 0
    requirements = manifest.get("replicaRequirements")
    if not isinstance(replicas, int) or not 0 <= replicas <= MAX_REPLICAS:
        raise ValueError(f"component {name!r}: replicas is {replicas!r:.64}, not a count from 0 to {MAX_REPLICAS}")
    if requirements is not None and not isinstance(requirements, dict):
        raise ValueError(f"component {name!r}: replicaRequirements is {requirements!r:.64}, not an object")
    asked = (requirements or {}).get("resourceRequest")
    for resource, amount in asked.items() if isinstance(asked, dict) else ():
        if isinstance(amount, bool):
            # In memory it would be taken for a 1 or a 0 that was read before.
            raise QuantityError(f"component {name!r}: {resource} is {amount}, not a quantity")
    return Component(
        name=name,
        replicas=replicas,
        demand=demand_of(requirements.get("resourceRequest")) if requirements is not None else None,
        claim=(requirements or {}).get("nodeClaim"),
        priority_class=(requirements or {}).get("priorityClassName") or "",
    )


def capacity_of(cluster: Mapping[str, Any]) -> Capacity:
    """Room of a Cluster manifest; amounts that cannot be read count as absent."""
    summary = (cluster.get("status") or {}).get("resourceSummary")
    if not isinstance(summary, dict):
        return Capacity(False, 0, {}, None, {})
    allocatable = _amounts(summary.get("allocatable"))
    taken = [_amounts(summary.get("allocated")), _amounts(summary.get("allocating"))]
    free = {}
    for name, amount in allocatable.items():
        for part in taken:
            if name in part:
                amount = amount - part[name]
        free[name] = amount
    pods = allocatable.get("pods", quantity.ZERO).value()
    pods -= sum(part["pods"].value() for part in taken if "pods" in part)
    models = _model_nodes((cluster.get("spec") or {}).get("resourceModels"), summary.get("allocatableModelings"))
    return Capacity(True, pods, free, models, {})


def _amounts(resources: Any) -> dict[str, Quantity]:
    found = {}
    for name, text in resources.items() if isinstance(resources, dict) else ():
        try:
            found[name] = quantity.parse(text)
        except QuantityError:
            continue
    return found


def _model_nodes(
    models: Sequence[Mapping[str, Any]] | None, counts: Sequence[Mapping[str, Any]] | None
) -> tuple[ModelNodes, ...] | None:
    """Nodes per grade known to both sides, by grade; None when models cannot be used."""
    if not models or not counts:
        return None
    try:
        return _counted_nodes(models, counts)
    except (ValueError, TypeError, AttributeError):
        # Not what a member's status looks like: the summary has to do.
        return None


def _counted_nodes(
    models: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]]
) -> tuple[ModelNodes, ...] | None:
    by_grade: dict[int, int] = {}
    for item in counts:
        count = int(item.get("count") or 0)
        if count < 0:
            return None
        by_grade[int(item.get("grade") or 0)] = count
    nodes = []
    for model in sorted(models, key=lambda item: int(item.get("grade") or 0)):
        count = by_grade.get(int(model.get("grade") or 0), 0)
        if count:
            lows = _amounts({item.get("name", ""): item.get("min") for item in model.get("ranges") or ()})
            amounts = {name: node_units(name, amount) for name, amount in lows.items()}
            nodes.append((count, amounts, PODS_PER_MODEL_NODE))
    return tuple(nodes)


def max_replicas(
    capacity: Capacity,
    demand: Demand | None,
    models: bool = True,
    assumed: Sequence[Assumed] = (),
    deduct: bool = True,
) -> int:
    """Further replicas that the status of a cluster has room for (docs/sources.md#estimators).

    `models` is the gate CustomizedClusterResourceModeling. Assumed workloads always take room on model nodes; `deduct`
    (gate SchedulingOvercommitProtection) takes them off the summary too.
    """
    if assumed:
        return _max_replicas(less_assumed(capacity, assumed) if deduct else capacity, demand, models, assumed)
    key = (demand, models)
    found = capacity.memo.get(key)
    if found is None:
        found = _max_replicas(capacity, demand, models, ())
        if len(capacity.memo) >= _MEMO_SIZE:
            capacity.memo.clear()
        capacity.memo[key] = found
    return found


def _max_replicas(capacity: Capacity, demand: Demand | None, models: bool, assumed: Sequence[Assumed]) -> int:
    pods = capacity.pods
    if not capacity.known or pods <= 0:
        return 0
    if demand is None:
        return pods
    if models and capacity.models is not None:
        return min(pods, _fit_models(capacity.models, demand, assumed))
    most = pods
    for name, unit, wanted in demand.counted:
        free = capacity.free.get(name)
        if free is None or free.nano <= 0:
            return 0
        most = min(most, -(-free.nano // unit) // wanted)
    return most


def _fit_models(models: Sequence[ModelNodes], demand: Demand, assumed: Sequence[Assumed]) -> int:
    if not assumed:
        return sum(count * Room(amounts, pods).fits(demand.on_node) for count, amounts, pods in models)
    rooms = _model_rooms(models, assumed)
    return sum(room.fits(demand.on_node) for room in rooms)


def _model_rooms(models: Sequence[ModelNodes], assumed: Sequence[Assumed]) -> list[Room]:
    rooms = [Room(dict(amounts), pods) for count, amounts, pods in models for _ in range(min(count, _MOST_MODEL_NODES))]
    for workload in assumed:
        place_set(rooms, [(item.replicas, _on_node(item)) for item in workload.components])
    return rooms


def _on_node(component: Component) -> tuple[tuple[str, int], ...]:
    return component.demand.on_node if component.demand else ()


def less_assumed(capacity: Capacity, assumed: Sequence[Assumed]) -> Capacity:
    """The capacity with the needs of assumed workloads taken off."""
    free = dict(capacity.free)
    pods = capacity.pods
    for workload in assumed:
        for component in workload.components:
            pods -= component.replicas
            for name, amount in component.demand.requests if component.demand else ():
                if name in free:
                    free[name] = free[name] - amount * component.replicas
    return msgspec.structs.replace(capacity, free=free, pods=pods, memo={})


def max_component_sets(
    capacity: Capacity,
    components: Sequence[Component],
    models: bool = True,
    assumed: Sequence[Assumed] = (),
    deduct: bool = True,
) -> int:
    """Complete sets of all components that the status of a cluster has room for (docs/sources.md#estimators).

    Parameters as in max_replicas.
    """
    if assumed and deduct:
        capacity = less_assumed(capacity, assumed)
    if not capacity.known or capacity.pods <= 0:
        return 0
    pods_per_set = sum(item.replicas for item in components)
    if pods_per_set <= 0:
        return capacity.pods
    bound = capacity.pods // pods_per_set
    for name, amount in per_set(components).items():
        wanted = _by_format(amount)
        if wanted <= 0:
            continue
        free = capacity.free.get(name)
        room = _by_format(free) if free is not None else 0
        if room <= 0:
            return 0
        bound = min(bound, room // wanted)
    if models and capacity.models is not None:
        rooms = _model_rooms(capacity.models, assumed)
        bound = min(bound, count_sets(rooms, [(item.replicas, _on_node(item)) for item in components], bound))
    return bound


def per_set(components: Sequence[Component]) -> dict[str, Quantity]:
    """What one complete set asks for."""
    total: dict[str, Quantity] = {}
    for component in components:
        if component.demand:
            add_to(total, {name: amount * component.replicas for name, amount in component.demand.requests})
    return total


def _by_format(amount: Quantity) -> int:
    """Thousandths for decimal notation, whole units for binary notation, as the recorded estimator compares."""
    return amount.value() if amount.format == "BinarySI" else amount.milli_value()

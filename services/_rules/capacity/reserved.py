"""Subtracts reserved capacity that is not visible yet: from a summary, from resource models, from an estimate of nodes.

Sums and first-fit placing work by kinds of pods, not by workloads, so that ten thousand workloads in flight that ask
for the same cost as much as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.capacity.general_estimate import (
    NO_DEMAND,
    Assumed,
    Capacity,
    Component,
    Demand,
    ModelNodes,
    component_of,
    demand_of,
)
from services._rules.capacity.packing import Room
from services._rules.kubernetes.pod_resources import node_units
from services._rules.kubernetes.quantity import Quantity


class PodClass(Struct, frozen=True):
    """One kind of pod; equal kinds compare equal. `claim` is the node claim in JSON."""

    namespace: str
    demand: Demand
    claim: bytes = b""
    priority_class: str = ""

    def component(self, replicas: int) -> Component:
        """So many pods of this kind as a component of a set."""
        claim = msgspec.json.decode(self.claim) if self.claim else None
        return Component("", replicas, self.demand, claim, self.priority_class)


Needs = tuple[tuple[PodClass, int], ...]
"""What one replica (or one set of components) takes: kinds of pods and how many of each."""


def needs_of(spec: Manifest, *, detailed: bool) -> Needs:
    """What one replica or set of a binding's spec takes; () where it is no workload.

    Without `detailed` only the requests distinguish kinds. Raises quantity.QuantityError.
    """
    namespace = ((spec.get("resource") or {}).get("namespace") or "") if detailed else ""
    components = [component_of(item) for item in spec.get("components") or ()]
    if components:
        return tuple((_want(namespace, item, detailed), item.replicas) for item in components if item.replicas > 0)
    if not spec.get("replicas"):
        return ()
    wanted = spec.get("replicaRequirements") or {}
    claim, priority = wanted.get("nodeClaim"), wanted.get("priorityClassName") or ""
    one = Component("", 1, demand_of(wanted.get("resourceRequest")), claim, priority)
    return ((_want(namespace, one, detailed), 1),)


def _want(namespace: str, item: Component, detailed: bool) -> PodClass:
    demand = item.demand or NO_DEMAND
    if not detailed:
        return PodClass("", demand)
    claim = msgspec.json.encode(item.claim, order="deterministic") if item.claim else b""
    return PodClass(namespace, demand, claim, item.priority_class)


@lru_cache(maxsize=4096)
def coarser(want: PodClass) -> PodClass:
    """The kind with every request raised to a power of two, so that there are few kinds of any number of pods."""
    amounts = {name: str(Quantity(1 << (amount.nano - 1).bit_length())) for name, amount in want.demand.requests}
    return msgspec.structs.replace(want, demand=demand_of(amounts))


def assumed_of(taken: Mapping[PodClass, int]) -> list[Assumed]:
    """What is taken, one assumed workload for each kind: one that fits nowhere does not hide the next."""
    return [Assumed(want.namespace, (want.component(count),)) for want, count in taken.items()]


def less_taken(capacity: Capacity, taken: Mapping[PodClass, int]) -> Capacity:
    """The capacity of a cluster without what was given away and is not in it yet."""
    if not taken:
        return capacity
    free, pods, models = dict(capacity.free), capacity.pods, capacity.models
    for want, count in taken.items():
        pods -= count
        for name, amount in want.demand.requests:
            if name in free:
                free[name] = free[name] - amount * count
        if models is not None:
            models = place_on_models(models, want.demand, count)
    return msgspec.structs.replace(capacity, free=free, pods=pods, models=models, memo={})


def place_on_models(models: Sequence[ModelNodes], demand: Demand, pods: int) -> tuple[ModelNodes, ...]:
    """Nodes of resource models after pods were placed on the first with room; what fits on none is left out.

    Equal nodes stay together: the cost is that of the number of their kinds, not of nodes.
    """
    found: list[ModelNodes] = []
    left = pods
    for count, amounts, slots in models:
        each = Room(amounts, slots).fits(demand.on_node) if left > 0 else 0
        if each <= 0:
            found.append((count, amounts, slots))
            continue
        full = min(count, left // each)
        left -= full * each
        parts = [(full, each)]
        if full < count and left > 0:
            parts.append((1, left))
            left = 0
        for nodes, held in parts:
            if nodes:
                room = Room(dict(amounts), slots)
                room.take(demand.on_node, held)
                found.append((nodes, room.free, room.pods))
        rest = count - sum(nodes for nodes, _ in parts)
        if rest:
            found.append((rest, amounts, slots))
    return tuple(found)


def displaced(taken: Iterable[tuple[PodClass, int]], wanted: Sequence[Component]) -> int:
    """How many replicas (or sets of `wanted`) at most no longer fit on nodes because of what was taken since.

    One pod takes on one node, so it drives away no more replicas there than its share of some resource covers. The
    exact number depends on nodes that are not known here; this one is never too small.
    """
    total = 0
    for want, count in taken:
        held = {name: node_units(name, amount) for name, amount in want.demand.requests}
        total += count * sum(_displaced_by(held, item.demand or NO_DEMAND) for item in wanted if item.replicas > 0)
    return total


def _displaced_by(held: Mapping[str, int], demand: Demand) -> int:
    return max([1, *(-(-held.get(name, 0) // units) for name, _, units in demand.counted)])

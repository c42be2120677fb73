"""Sums over the nodes and pods of a member, and its nodes sorted into resource models.

Source: docs/sources.md#resource-summary, #resource-models.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.capacity.node_estimate import Amounts, finished, requests_of, units_of
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to, quantity_of, raise_to
from services._rules.kubernetes.quantity import Quantity


class NodeSummary(Struct, frozen=True):
    """Number of nodes, and of those that are ready."""

    total: int
    ready: int


class ResourceSummary(Struct, frozen=True):
    """What the nodes offer, what pods on them hold, and what pods without a node ask for."""

    allocatable: dict[str, Quantity]
    allocated: dict[str, Quantity]
    allocating: dict[str, Quantity]


def node_summary(nodes: Iterable[Manifest]) -> NodeSummary:
    """Count nodes and ready nodes."""
    total = ready = 0
    for node in nodes:
        total += 1
        conditions = (node.get("status") or {}).get("conditions") or ()
        ready += any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return NodeSummary(total, ready)


class RunningTotal:
    """Requests of pods in node units, pod by pod.

    The greatest init container raises the running total, not the share of its own pod; members report it so.
    """

    def __init__(self) -> None:
        self.amounts: Amounts = {}
        self.pods = 0

    def add(self, pod: Manifest) -> None:
        """One more pod; raises quantity.QuantityError."""
        self.pods += 1
        spec = pod.get("spec") or {}
        for container in spec.get("containers") or ():
            add_to(self.amounts, requests_of(container))
        for container in spec.get("initContainers") or ():
            raise_to(self.amounts, requests_of(container))
        add_to(self.amounts, units_of(spec.get("overhead")))

    @property
    def with_number(self) -> Amounts:
        """Requests, and the number of the pods."""
        return {**self.amounts, "pods": self.amounts.get("pods", 0) + self.pods}


class PodSums:
    """What the pods of a member ask for, taken one after the other; with `by_node` also for each node."""

    def __init__(self, *, by_node: bool = False) -> None:
        self.bound = RunningTotal()
        self.waiting = RunningTotal()
        self.by_node: dict[str, RunningTotal] = {}
        self._by_node = by_node

    def take(self, pod: Manifest) -> None:
        """One more pod; raises quantity.QuantityError."""
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            self.waiting.add(pod)
        elif not finished(pod):
            self.bound.add(pod)
            if self._by_node:
                self.by_node.setdefault(node, RunningTotal()).add(pod)

    def summary(self, nodes: Iterable[Manifest]) -> ResourceSummary:
        """Sums as a cluster status carries them; raises quantity.QuantityError."""
        allocatable: dict[str, Quantity] = {}
        for node in nodes:
            offered = (node.get("status") or {}).get("allocatable") or {}
            add_to(allocatable, {name: quantity.parse(text) for name, text in offered.items()})
        return ResourceSummary(allocatable, _sum_of(self.bound), _sum_of(self.waiting))


def _sum_of(total: RunningTotal) -> dict[str, Quantity]:
    """Requests of pods together, with their number; nothing-amounts are left out."""
    return {name: quantity_of(name, units) for name, units in total.with_number.items() if units}


def allocatable_modelings(
    models: Sequence[Mapping[str, Any]], nodes: Iterable[Manifest], by_node: Mapping[str, RunningTotal]
) -> list[tuple[int, int]] | None:
    """(grade, number of nodes) per resource model, by what is free on each node.

    Counting stops at the first node that has no room for another pod; models that do not all describe the same
    resources give None. Raises quantity.QuantityError.
    """
    described = [{item.get("name") for item in model.get("ranges") or ()} for model in models]
    if any(names != described[0] for names in described):
        return None
    counts = [0] * len(models)
    bounds = _bounds(models)
    for node in nodes:
        free = _free_on(node, by_node.get((node.get("metadata") or {}).get("name", "")))
        if free is None:
            break
        grade = min((_grade(free.get(name, 0), minimums) for name, minimums in bounds.items()), default=-1)
        if grade >= 0:
            counts[grade] += 1
    return [(int(model.get("grade") or 0), count) for model, count in zip(models, counts, strict=True)]


def _bounds(models: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Lower bounds of the models per resource, in nano-units."""
    bounds: dict[str, list[int]] = {}
    for model in models:
        for item in model.get("ranges") or ():
            bounds.setdefault(item.get("name", ""), []).append(quantity.parse(item.get("min")).nano)
    return bounds


def _grade(free: int, minimums: Sequence[int]) -> int:
    """Index of the last model whose lower bound is reached, -1 below the first."""
    index = -1
    for position, minimum in enumerate(minimums):
        if minimum <= free:
            index = position
    return index


def _free_on(node: Manifest, total: RunningTotal | None) -> dict[str, int] | None:
    """What is free on a node in nano-units, None where pods have taken every slot."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    free = {name: quantity.parse(text).nano for name, text in allocatable.items()}
    if total is None:
        return free
    taken = total.with_number
    if free.get("pods", 0) <= quantity_of("pods", taken["pods"]).nano:
        return None
    return {name: nano - quantity_of(name, taken.get(name, 0)).nano for name, nano in free.items()}

"""Sums over the nodes and pods of a member, and its nodes sorted into resource models (reference 02 §5.7, §7.3)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from services._rules import quantity
from services._rules.estimation_nodes import Amounts, add_units, finished, raise_to, units_of
from services._rules.quantity import Quantity

Manifest: TypeAlias = dict[str, Any]


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


def resource_summary(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> ResourceSummary:
    """Sums as a cluster status carries them; raises quantity.QuantityError."""
    allocatable: dict[str, Quantity] = {}
    for node in nodes:
        for name, text in ((node.get("status") or {}).get("allocatable") or {}).items():
            amount = quantity.parse(text)
            allocatable[name] = allocatable[name].add(amount) if name in allocatable else amount
    bound, waiting = [], []
    for pod in pods:
        if not (pod.get("spec") or {}).get("nodeName"):
            waiting.append(pod)
        elif not finished(pod):
            bound.append(pod)
    return ResourceSummary(allocatable, _sum_of(bound), _sum_of(waiting))


def _sum_of(pods: Sequence[Manifest]) -> dict[str, Quantity]:
    """Requests of pods together, with their number; nothing-amounts are left out."""
    total = running_total(pods)
    total["pods"] = total.get("pods", 0) + len(pods)
    return {name: _quantity(name, units) for name, units in total.items() if units}


def running_total(pods: Iterable[Manifest]) -> Amounts:
    """Requests of pods in node units.

    The greatest init container raises the running total, not the share of its own pod; members report it so.
    """
    total: Amounts = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        for container in spec.get("containers") or ():
            add_units(total, units_of((container.get("resources") or {}).get("requests")))
        for container in spec.get("initContainers") or ():
            raise_to(total, units_of((container.get("resources") or {}).get("requests")))
        add_units(total, units_of(spec.get("overhead")))
    return total


def _quantity(name: str, units: int) -> Quantity:
    if name == "cpu":
        return quantity.from_milli(units)
    binary = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    return quantity.from_value(units, "BinarySI" if binary else "DecimalSI")


def allocatable_modelings(
    models: Sequence[Mapping[str, Any]], nodes: Sequence[Manifest], pods: Iterable[Manifest]
) -> list[tuple[int, int]] | None:
    """(grade, number of nodes) per resource model, by what is free on each node.

    Counting stops at the first node that has no room for another pod; models that do not all describe the same
    resources give None. Raises quantity.QuantityError.
    """
    described = [{item.get("name") for item in model.get("ranges") or ()} for model in models]
    if any(names != described[0] for names in described):
        return None
    by_node: dict[str, list[Manifest]] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName")
        if name and not finished(pod):
            by_node.setdefault(name, []).append(pod)
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


def _free_on(node: Manifest, pods: Sequence[Manifest] | None) -> dict[str, int] | None:
    """What is free on a node in nano-units, None where pods have taken every slot."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    free = {name: quantity.parse(text).nano for name, text in allocatable.items()}
    if not pods:
        return free
    taken = running_total(pods)
    taken["pods"] = taken.get("pods", 0) + len(pods)
    if free.get("pods", 0) <= _quantity("pods", taken["pods"]).nano:
        return None
    return {name: nano - _quantity(name, taken.get(name, 0)).nano for name, nano in free.items()}

"""Replays the recorded estimates."""

from collections.abc import Callable
from typing import Any

from services._rules import estimation
from services._rules.estimation import Assumed, Component


def _components(items: list[dict[str, Any]] | None) -> tuple[Component, ...]:
    return tuple(estimation.component_of(item) for item in items or [])


def _assumed(args: dict[str, Any]) -> tuple[Assumed, ...]:
    return tuple(
        Assumed(item.get("namespace", ""), _components(item.get("components")))
        for item in args.get("assumedWorkloads") or []
    )


def _gates(args: dict[str, Any]) -> tuple[bool, bool]:
    gates = args.get("featureGates") or {}
    return bool(gates.get("CustomizedClusterResourceModeling")), bool(gates.get("SchedulingOvercommitProtection"))


def _demand(args: dict[str, Any]) -> estimation.Demand | None:
    requirements = args.get("replicaRequirements")
    return None if requirements is None else estimation.demand_of(requirements.get("resourceRequest"))


def _max_replicas(args: dict[str, Any]) -> Any:
    models, deduct = _gates(args)
    return estimation.max_replicas(
        estimation.capacity_of(args["cluster"]), _demand(args), models, _assumed(args), deduct
    )


def _max_sets(args: dict[str, Any]) -> Any:
    models, deduct = _gates(args)
    capacity = estimation.capacity_of(args["cluster"])
    return estimation.max_component_sets(capacity, _components(args.get("components")), models, _assumed(args), deduct)


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "MaxAvailableReplicas": _max_replicas,
    "MaxAvailableComponentSets": _max_sets,
}


def check_estimation(case: dict[str, Any]) -> bool:
    """Whether the case comes out as recorded."""
    return bool(FUNCTIONS[case["function"]](case["args"]) == case["result"])


FILES: dict[str, Callable[[dict[str, Any]], bool]] = {"estimation": check_estimation}

"""Replays the recorded estimates."""

from collections.abc import Callable
from typing import Any

from services._rules.capacity import general_estimate as estimation
from services._rules.capacity import node_estimate as estimation_nodes
from services._rules.capacity import quota_estimate as estimation_quota
from services._rules.capacity import resource_summary as estimation_summary
from services._rules.capacity.general_estimate import Assumed, Component
from services._rules.capacity.node_index import MemberRooms


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


def _nodes(args: dict[str, Any]) -> list[estimation_nodes.Node]:
    rooms = MemberRooms()
    rooms.list_nodes(args.get("nodes") or [])
    # Recorded behind the filter that leaves ended pods out: here each of them counts.
    rooms.list_pods({**pod, "status": {}} for pod in args.get("pods") or [])
    return rooms.nodes()


def _sums(args: dict[str, Any], *, by_node: bool = False) -> estimation_summary.PodSums:
    sums = estimation_summary.PodSums(by_node=by_node)
    for pod in args.get("pods") or []:
        sums.take(pod)
    return sums


def _node_replicas(args: dict[str, Any]) -> Any:
    claim = (args.get("replicaRequirements") or {}).get("nodeClaim")
    return _plain(estimation_nodes.estimate_replicas(_nodes(args), _demand(args), claim, _assumed(args)))


def _node_components(args: dict[str, Any]) -> Any:
    return _plain(
        estimation_nodes.estimate_components(_nodes(args), _components(args.get("components")), _assumed(args))
    )


def _quota_replicas(args: dict[str, Any]) -> Any:
    priority = (args.get("replicaRequirements") or {}).get("priorityClassName") or ""
    quotas = args.get("resourceQuotas") or []
    return _plain(
        estimation_quota.estimate_replicas(quotas, args.get("namespace", ""), _demand(args), priority, _assumed(args))
    )


def _quota_components(args: dict[str, Any]) -> Any:
    quotas, components = args.get("resourceQuotas") or [], _components(args.get("components"))
    return _plain(estimation_quota.estimate_components(quotas, args.get("namespace", ""), components, _assumed(args)))


def _plain(estimate: estimation_nodes.Estimate) -> dict[str, Any]:
    return {"unschedulable": estimate.unschedulable, "value": estimate.value}


def _node_summary(args: dict[str, Any]) -> Any:
    summary = estimation_summary.node_summary(args.get("nodes") or [])
    return {"totalNum": summary.total, "readyNum": summary.ready}


def _resource_summary(args: dict[str, Any]) -> Any:
    summary = _sums(args).summary(args.get("nodes") or [])
    parts = {"allocatable": summary.allocatable, "allocated": summary.allocated, "allocating": summary.allocating}
    return {part: {name: str(amount) for name, amount in found.items()} for part, found in parts.items()}


def _modelings(args: dict[str, Any]) -> Any:
    found = estimation_summary.allocatable_modelings(
        args.get("resourceModels") or [], args.get("nodes") or [], _sums(args, by_node=True).by_node
    )
    return found and [{"grade": grade, "count": count} for grade, count in found]


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "MaxAvailableReplicas": _max_replicas,
    "MaxAvailableComponentSets": _max_sets,
    "NodeEstimateReplicas": _node_replicas,
    "NodeEstimateComponents": _node_components,
    "QuotaEstimateReplicas": _quota_replicas,
    "QuotaEstimateComponents": _quota_components,
    "NodeSummary": _node_summary,
    "ResourceSummary": _resource_summary,
    "AllocatableModelings": _modelings,
}


def _pruned(value: Any) -> Any:
    """Without empty members, and with zeros that a count may leave out."""
    if isinstance(value, dict):
        return {key: found for key, item in value.items() if (found := _pruned(item)) not in (None, {}, [], 0)}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


def check_estimation(case: dict[str, Any]) -> bool | None:
    """Whether the case comes out as recorded; None for functions that another runner replays."""
    if case["function"] not in FUNCTIONS:
        return None
    found = _pruned(FUNCTIONS[case["function"]](case["args"]))
    expected = _pruned(case.get("result"))
    return bool(found == expected or (not found and not expected))


FILES: dict[str, Callable[[dict[str, Any]], bool | None]] = {"estimation": check_estimation}

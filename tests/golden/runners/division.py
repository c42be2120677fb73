"""Replays the recorded divisions, usages and tests for change."""

from collections.abc import Callable
from typing import Any

from services._rules.kubernetes import quantity
from services._rules.quota.binding_usage import resource_usage
from services._rules.scheduling.division.usage import replicas_changed, reschedule_requested
from services._rules.scheduling.division.weights import (
    TargetCluster,
    allocate_by_weight,
    divide_job_completions,
    merge_targets,
    spread_by_targets,
    webster,
)


def _targets(items: list[dict[str, Any]] | None) -> list[TargetCluster]:
    return [TargetCluster(item["name"], item.get("replicas", 0)) for item in items or []]


def _plain(items: list[TargetCluster] | None) -> list[dict[str, Any]] | None:
    if items is None:
        return None
    return [{"name": item.name, "replicas": item.replicas} if item.replicas else {"name": item.name} for item in items]


def _webster(args: dict[str, Any]) -> Any:
    seats = webster(args["newSeats"], args["votes"] or {}, args["initial"] or {})
    return [
        {"name": name, "seats": count, "votes": (args["votes"] or {}).get(name, 0)} for name, count in seats.items()
    ]


def _dispenser(args: dict[str, Any]) -> Any:
    weights = [(item["cluster"], item.get("weight", 0)) for item in args["weights"] or []]
    result, left = allocate_by_weight(args["replicas"], weights, _targets(args["init"]), args["uid"])
    done = left == 0 and bool(result)
    return {"done": done, "left": left, "result": _plain(result)}


def _merge(args: dict[str, Any]) -> Any:
    return sorted(
        _plain(merge_targets(_targets(args["old"]), _targets(args["new"]))) or [], key=lambda item: item["name"]
    )


def _job(args: dict[str, Any]) -> Any:
    return _plain(divide_job_completions(args["job"], _targets(args["clusters"])))


def _usage(args: dict[str, Any]) -> Any:
    return {name: str(amount) for name, amount in resource_usage(args["spec"]).items()}


def _changed(args: dict[str, Any]) -> Any:
    spec = args["spec"]
    counts = [item.get("replicas", 0) for item in spec.get("clusters") or []]
    scheduling = args.get("replicaScheduling")
    kind = None if scheduling is None else scheduling.get("replicaSchedulingType", "")
    return replicas_changed(spec.get("replicas", 0), kind, counts)


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "AllocateWebsterSeats": _webster,
    "DispenserAllocateByWeight": _dispenser,
    "SpreadReplicasByTargetClusters": lambda args: _plain(
        spread_by_targets(args["replicas"], _targets(args["targets"]), _targets(args["init"]), args["uid"])
    ),
    "MergeTargetClusters": _merge,
    "DivideJobCompletions": _job,
    "CalculateResourceUsage": _usage,
    "IsBindingReplicasChanged": _changed,
    "RescheduleRequired": lambda args: reschedule_requested(args["rescheduleTriggeredAt"], args["lastScheduledTime"]),
}


def check_division(case: dict[str, Any]) -> bool | None:
    """Whether the case comes out as recorded; None for functions that another runner replays."""
    if case["function"] not in FUNCTIONS:
        return None
    try:
        found = FUNCTIONS[case["function"]](case["args"])
    except (ValueError, TypeError, KeyError):
        return "error" in case
    if "error" in case:
        return False
    expected = case.get("result")
    if case["function"] == "CalculateResourceUsage":
        expected = {name: str(quantity.parse(text)) for name, text in (expected or {}).items()}
    return bool(found == expected or (not found and not expected))


FILES: dict[str, Callable[[dict[str, Any]], bool | None]] = {"division": check_division}

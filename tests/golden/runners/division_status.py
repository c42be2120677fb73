"""Replays the recorded rules of rendering and of folding status back."""

from collections.abc import Callable
from typing import Any

from services._rules.constants import CONFLICT_RESOLUTION_ANNOTATION
from services._rules.delivery.cluster_rendering import (
    RenderError,
    apply_job_completions,
    conflict_resolution,
    inject_preserved_labels,
    merge_required_by,
    merge_suspension,
    suspends_dispatching,
)
from services._rules.delivery.metadata_retention import retain_annotations, retain_labels
from services._rules.delivery.work_status import (
    StatusError,
    assemble_work_status,
    direct_purge_clusters,
    existing_clusters,
    fully_applied,
)
from services._rules.interpreter.native.network_statuses import merge_load_balancer_ingress

Case = dict[str, Any]


def _fully_applied(args: Case) -> Any:
    spec = args["spec"]
    clusters = existing_clusters(spec)
    condition = fully_applied(clusters, args["aggregatedStatus"])
    return {
        "type": "FullyApplied",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "existingClusters": sorted(clusters),
        "directPurgeClusters": sorted(direct_purge_clusters(spec)),
    }


_CALLS: dict[str, Callable[[Case], Any]] = {
    "AssembleWorkStatus": lambda a: assemble_work_status(a["works"] or (), a["reference"]),
    "FullyAppliedCondition": _fully_applied,
    "RetainLabels": lambda a: retain_labels(a["desired"], a["observed"]),
    "RetainAnnotations": lambda a: retain_annotations(a["desired"], a["observed"]),
    "DedupeAndSortLoadBalancerIngress": lambda a: merge_load_balancer_ingress(a["ingress"] or ()),
    "ApplyJobCompletions": lambda a: apply_job_completions(a["job"], a["cluster"], a["completions"]),
    "InjectPreservedLabelState": lambda a: inject_preserved_labels(
        a["object"], a["cluster"], a["clusterCount"], a["spec"].get("gracefulEvictionTasks")
    ),
    "MergeConflictResolution": lambda a: {
        CONFLICT_RESOLUTION_ANNOTATION: conflict_resolution(a["object"], a["inBinding"])
    },
    "MergeRequiredBy": lambda a: merge_required_by(a["clusters"], a["requiredBy"]),
    "MergePolicySuspension": lambda a: merge_suspension(a["binding"], a["policy"]),
    "ShouldSuspendDispatching": lambda a: suspends_dispatching(a["suspension"], a["cluster"]),
}


def evaluate(case: Case) -> tuple[Any, Exception | None]:
    """What this product answers: a result, or an error."""
    try:
        return _CALLS[case["function"]](case["args"]), None
    except (StatusError, RenderError) as problem:
        return None, problem


def run(case: Case) -> bool | None:
    """Whether the answer is the recorded one; None for functions that another runner replays."""
    if case["function"] not in _CALLS:
        return None
    result, problem = evaluate(case)
    if problem is not None or "error" in case:
        return problem is not None and "error" in case
    return bool(_stripped(result) == _stripped(case.get("result")))


def _stripped(value: Any) -> Any:
    """Without nulls, false, and empty members, which mean absent in these results."""
    if isinstance(value, dict):
        members = {name: _stripped(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, {}, [], "", False)}
    if isinstance(value, list):
        return [_stripped(entry) for entry in value]
    return value


FILES: dict[str, Callable[[Case], bool | None]] = {"division": run}

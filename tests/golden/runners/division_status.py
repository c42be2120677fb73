"""Replays the recorded rules of rendering and of summing up status."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from schemas.events.binding import BindingRequested
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.rollup import ClusterStatusItem
from schemas.keys import ObjectKey
from services._rules.constants import CONFLICT_RESOLUTION_ANNOTATION
from services._rules.delivery.cluster_rendering import (
    RenderError,
    apply_job_completions,
    conflict_resolution,
    merge_suspension,
    suspends_dispatching,
    with_labels,
)
from services._rules.delivery.metadata_retention import retain_annotations, retain_labels
from services._rules.delivery.work_status import FULLY_APPLIED, NOT_FULLY_APPLIED, fully_applied
from services._rules.effective import Effective, effective, removed_at_once
from services._rules.failover.eviction_requests import carried_labels
from services._rules.interpreter.native.statuses import merge_load_balancer_ingress
from services._rules.names import NameFormatError, cluster_of_execution_namespace
from services.status_aggregator.decide import summed
from services.status_aggregator.state import AggregatorState, Copy

Case = dict[str, Any]
_KEY = ObjectKey("", "objects", "", "x")
_UID = "uid"


class _NoWork(Exception):
    """A Work that no fact about a copy can stand for: in a namespace of no cluster, or without the object."""


def _binding(reference: Case) -> BindingRequested:
    return BindingRequested(
        key=_KEY,
        uid=_UID,
        api_version=reference.get("apiVersion") or "",
        kind=reference.get("kind") or "",
        spec=Raw(b"{}"),
    )


def _tasks(manifests: Iterable[Case] | None) -> tuple[EvictionTask, ...]:
    return tuple(
        EvictionTask(
            from_cluster=manifest["fromCluster"],
            reason=manifest.get("reason") or "",
            producer=manifest.get("producer") or "",
            purge_mode=manifest.get("purgeMode") or "",
            clusters_before=tuple(manifest.get("clustersBeforeFailover") or ()),
            preserved_state=manifest.get("preservedLabelState") or {},
        )
        for manifest in manifests or ()
    )


def _effective(clusters: Any, required_by: Any, tasks: tuple[EvictionTask, ...] = ()) -> Effective:
    """Clusters of an object with these targets, dependent bindings and evictions."""
    targets = tuple(TargetCluster(item["name"], item.get("replicas")) for item in clusters or ())
    required = [
        TargetCluster(item["name"], item.get("replicas"))
        for snapshot in required_by or ()
        for item in snapshot.get("clusters") or ()
    ]
    placement = PlacementDecided(key=_KEY, uid=_UID, clusters=targets)
    eviction = EvictionRequested(key=_KEY, uid=_UID, tasks=tasks) if tasks else None
    known = {target.name for target in (*targets, *required)} | {task.from_cluster for task in tasks}
    return effective(_binding({}), placement, eviction, clusters=known, required_by=required)


def _fully_applied(args: Case) -> Any:
    spec = args["spec"]
    tasks = _tasks(spec.get("gracefulEvictionTasks"))
    clusters = _effective(spec.get("clusters"), spec.get("requiredBy"), tasks).occupied
    items = [
        ClusterStatusItem(
            cluster=item.get("clusterName", ""),
            applied=item.get("applied") or False,
            message=item.get("appliedMessage") or "",
        )
        for item in args["aggregatedStatus"] or ()
    ]
    condition = FULLY_APPLIED if fully_applied(clusters, items) else NOT_FULLY_APPLIED
    return {
        "type": "FullyApplied",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "existingClusters": list(clusters),
        "directPurgeClusters": sorted({task.from_cluster for task in removed_at_once(tasks)}),
    }


def _merge_required_by(args: Case) -> Any:
    """Targets by name: their order says nothing."""
    merged = _effective(args["clusters"], args["requiredBy"]).targets
    return [msgspec.to_builtins(target) for target in merged]


def _works(args: Case) -> Any:
    """What the reports that Works stand for add up to."""
    state = AggregatorState()
    reported = state.of(_KEY)
    reported.binding = _binding(args["reference"])
    for work in args["works"] or ():
        metadata = work.get("metadata") or {}
        if metadata.get("deletionTimestamp") is None:
            seen = _observed(work, args["reference"])
            state.clusters.add(seen.cluster)
            reported.works[seen.cluster] = Copy(_UID, 1, 0.0, wanted=True)
            reported.observed[seen.cluster] = (seen, 2)
    found = summed(state, _KEY, reported)
    return [_item(item) for item in found.items] if found is not None else []


def _observed(work: Case, reference: Case) -> WorkObserved:
    metadata, status = work.get("metadata") or {}, work.get("status") or {}
    try:
        cluster = cluster_of_execution_namespace(str(metadata.get("namespace") or ""))
    except NameFormatError as error:
        raise _NoWork(str(error)) from None
    ordinal = _ordinal(work, reference)
    condition = next((one for one in status.get("conditions") or () if one.get("type") == "Applied"), {})
    if condition.get("status") != "True":
        return WorkObserved(cluster=cluster, key=_KEY, uid=_UID, work_seq=1, message=condition.get("message") or "")
    seen = WorkObserved(cluster=cluster, key=_KEY, uid=_UID, work_seq=1, applied=True)
    for entry in status.get("manifestStatuses") or ():
        if _identifies(entry.get("identifier") or {}, ordinal, reference):
            found = entry.get("status")
            return msgspec.structs.replace(
                seen,
                health=entry.get("health") or "",
                status=UNSET if found is None else Raw(msgspec.json.encode(found)),
            )
    return seen


def _ordinal(work: Case, reference: Case) -> int:
    wanted = [reference.get(name) or "" for name in ("apiVersion", "kind", "namespace", "name")]
    for ordinal, manifest in enumerate(((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()):
        both = {**(manifest.get("metadata") or {}), **manifest}
        if [both.get(name) or "" for name in ("apiVersion", "kind", "namespace", "name")] == wanted:
            return ordinal
    raise _NoWork("holds no such object")


def _identifies(identifier: Case, ordinal: int, reference: Case) -> bool:
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    wanted = {**reference, "group": group, "version": version}
    return (identifier.get("ordinal") or 0) == ordinal and all(
        (identifier.get(name) or "") == (wanted.get(name) or "")
        for name in ("group", "version", "kind", "namespace", "name")
    )


def _item(item: ClusterStatusItem) -> Case:
    return {
        "clusterName": item.cluster,
        "applied": item.applied,
        "appliedMessage": item.message,
        "health": item.health,
        "status": msgspec.json.decode(item.status) if isinstance(item.status, Raw) else None,
    }


_CALLS: dict[str, Callable[[Case], Any]] = {
    "AssembleWorkStatus": _works,
    "FullyAppliedCondition": _fully_applied,
    "RetainLabels": lambda a: retain_labels(a["desired"], a["observed"]),
    "RetainAnnotations": lambda a: retain_annotations(a["desired"], a["observed"]),
    "DedupeAndSortLoadBalancerIngress": lambda a: merge_load_balancer_ingress(a["ingress"] or ()),
    "ApplyJobCompletions": lambda a: apply_job_completions(a["job"], a["cluster"], a["completions"]),
    "InjectPreservedLabelState": lambda a: with_labels(
        a["object"], carried_labels(_tasks(a["spec"].get("gracefulEvictionTasks")), a["cluster"], a["clusterCount"])
    ),
    "MergeConflictResolution": lambda a: {
        CONFLICT_RESOLUTION_ANNOTATION: conflict_resolution(a["object"], a["inBinding"])
    },
    "MergeRequiredBy": _merge_required_by,
    "MergePolicySuspension": lambda a: merge_suspension(a["binding"], a["policy"]),
    "ShouldSuspendDispatching": lambda a: suspends_dispatching(a["suspension"], a["cluster"]),
}


def evaluate(case: Case) -> tuple[Any, Exception | None]:
    """What this product answers: a result, or an error."""
    try:
        return _CALLS[case["function"]](case["args"]), None
    except (_NoWork, RenderError) as problem:
        return None, problem


def run(case: Case) -> bool | None:
    """Whether the answer is the recorded one; None for functions that another runner replays."""
    if case["function"] not in _CALLS:
        return None
    result, problem = evaluate(case)
    if problem is not None or "error" in case:
        return problem is not None and "error" in case
    expected = case.get("result")
    if case["function"] == "MergeRequiredBy":
        expected = sorted(expected or (), key=lambda target: str(target["name"]))
    return bool(_stripped(result) == _stripped(expected))


def _stripped(value: Any) -> Any:
    """Without nulls, false, and empty members, which mean absent in these results."""
    if isinstance(value, dict):
        members = {name: _stripped(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, {}, [], "", False)}
    if isinstance(value, list):
        return [_stripped(entry) for entry in value]
    return value


FILES: dict[str, Callable[[Case], bool | None]] = {"division": run}

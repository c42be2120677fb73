"""Replays the recorded rules of failover: taints, evictions, preserved state, taint policies, remedies."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from schemas.events.eviction import EvictionTask
from schemas.events.placement import TargetCluster
from services._rules.constants import APPLIED_PLACEMENT_ANNOTATION
from services._rules.failover.application_failover import Gates, PurgeRefused, detect, evict_unhealthy, health_of
from services._rules.failover.cluster_taint_policies import add_taints, conditions_match, remove_taints
from services._rules.failover.eviction_tasks import assess, next_look
from services._rules.failover.remedy_actions import actions
from services._rules.failover.state_preservation import StateError, preserved_state
from services._rules.failover.taint_eviction import (
    AppliedPlacementError,
    cluster_purge_mode,
    stay,
    taints_message,
    tolerations_of,
)
from services._rules.kubernetes.taints import Taint, Toleration, matching_tolerations, seconds_left
from services.cluster_monitor.readiness import find_condition, taints_for

Case = dict[str, Any]
_NOW = "<now>"


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _task(manifest: Case) -> EvictionTask:
    created = manifest.get("creationTimestamp")
    return EvictionTask(
        from_cluster=manifest["fromCluster"],
        reason=manifest.get("reason", ""),
        producer=manifest.get("producer", ""),
        purge_mode=manifest.get("purgeMode") or "",
        message=manifest.get("message") or "",
        replicas=manifest.get("replicas"),
        grace_period_seconds=manifest.get("gracePeriodSeconds"),
        suppress_deletion=manifest.get("suppressDeletion"),
        created_at=_seconds(created) if created else 0.0,
        clusters_before=tuple(manifest.get("clustersBeforeFailover") or ()),
        preserved_state=manifest.get("preservedLabelState") or {},
    )


def _shown(task: EvictionTask) -> Any:
    return _filled(
        {
            "fromCluster": task.from_cluster,
            "reason": task.reason,
            "producer": task.producer,
            "purgeMode": task.purge_mode,
            "message": task.message,
            "replicas": task.replicas,
            "gracePeriodSeconds": task.grace_period_seconds,
            "suppressDeletion": task.suppress_deletion,
            "creationTimestamp": _time(task.created_at) if task.created_at else None,
            "clustersBeforeFailover": list(task.clusters_before),
            "preservedLabelState": task.preserved_state,
        }
    )


def _tasks(manifests: Sequence[Case] | None) -> tuple[EvictionTask, ...]:
    return tuple(_task(manifest) for manifest in manifests or ())


def _taints(manifests: Sequence[Case] | None) -> tuple[Taint, ...]:
    return tuple(msgspec.convert(list(manifests or ()), list[Taint]))


def _tolerations(manifests: Sequence[Case] | None) -> tuple[Toleration, ...]:
    return tuple(msgspec.convert(list(manifests or ()), list[Toleration]))


def _left(seconds: float | None) -> int:
    return -1 if seconds is None else int(seconds)


def _assess(args: Case) -> Any:
    health = {item["clusterName"]: item.get("health") or "" for item in args["observedStatus"] or ()}
    found = assess(
        _tasks(args["tasks"]),
        _seconds(args["now"]),
        timeout=args["timeoutSeconds"],
        scheduled=args["hasScheduled"],
        targets=[target["name"] for target in args["scheduleResult"] or ()],
        health=health,
    )
    return {"kept": [_shown(task) for task in found.kept], "evictedClusters": list(found.ended)}


def _next_retry(args: Case) -> Any:
    at = next_look(_tasks(args["tasks"]), args["timeoutSeconds"])
    return {"seconds": 0 if at is None else round(at - _seconds(args["now"]))}


def _need_eviction(args: Case) -> Any:
    tolerations = tolerations_of(args["annotations"].get(APPLIED_PLACEMENT_ANNOTATION, ""))
    cluster = args["cluster"]
    if cluster["metadata"]["name"] != args["clusterName"] or not args["enableNoExecuteTaintEviction"]:
        return {"needEviction": False, "tolerationSeconds": -1}
    verdict = stay(_taints(cluster["spec"].get("taints")), tolerations, _seconds(args["now"]))
    return {"needEviction": verdict.leave, "tolerationSeconds": _left(verdict.seconds)}


def _minimum(args: Case) -> Any:
    now = datetime.fromisoformat(args["now"])
    return {"seconds": _left(seconds_left(_taints(args["taints"]), _tolerations(args["tolerations"]), now))}


def _matching(args: Case) -> Any:
    tolerated, used = matching_tolerations(_taints(args["taints"]), _tolerations(args["tolerations"]))
    return {"allTolerated": tolerated, "used": [msgspec.to_builtins(item) for item in used]}


def _by_condition(args: Case) -> Any:
    cluster = args["cluster"]
    ready = find_condition((cluster.get("status") or {}).get("conditions") or [], "Ready")
    return {"taints": taints_for(ready["status"] if ready else None, cluster["spec"].get("taints") or [], _NOW)}


def _set_taints(args: Case) -> Any:
    return add_taints(remove_taints(args["taints"] or (), args["remove"] or ()), args["add"] or (), _NOW)


def _targets(manifests: Sequence[Case] | None) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(target["name"], target.get("replicas")) for target in manifests or ())


def _evict(args: Case) -> Any:
    spec, gates = args["spec"], args["featureGates"]
    left, tasks = evict_unhealthy(
        spec["failover"]["application"],
        args["clusters"],
        _targets(spec["clusters"]),
        _tasks(spec.get("gracefulEvictionTasks")),
        args["aggregatedStatus"] or (),
        gates=Gates(gates["GracefulEviction"], gates["StatefulFailoverInjection"]),
    )
    clusters = [_filled({"name": target.name, "replicas": target.replicas or None}) for target in left]
    return {"clusters": clusters, "gracefulEvictionTasks": [_shown(task) for task in tasks]}


def _unhealthy(args: Case) -> Any:
    found = health_of(args["aggregatedStatus"] or (), _tasks(args["spec"].get("gracefulEvictionTasks")))
    return {"unhealthy": list(found.unhealthy), "others": list(found.others)}


def _detect(args: Case) -> Any:
    now = 1_000_000.0
    since = {name: now - seconds for name, seconds in args["unhealthySecondsAgo"].items()}
    found = detect(args["unhealthyClusters"] or (), since, args["tolerationSeconds"], now)
    return {"evict": list(found.evict), "requeueSeconds": found.again_in}


_CALLS: dict[str, Callable[[Case], Any]] = {
    "AssessEvictionTasks": _assess,
    "NextRetry": _next_retry,
    "NeedEviction": _need_eviction,
    "GetMinTolerationTime": _minimum,
    "GetMatchingTolerations": _matching,
    "GenerateTaintsMessage": lambda a: taints_message(_taints(a["taints"])),
    "TaintClusterByCondition": _by_condition,
    "SetCurrentClusterTaints": _set_taints,
    "ClusterPurgeMode": lambda a: cluster_purge_mode(a["failover"], a["flag"]),
    "PreservedLabelState": lambda a: preserved_state(
        (a["failover"] or {}).get("statePreservation"), a["aggregatedStatus"] or (), a["cluster"]
    ),
    "ConditionMatches": lambda a: conditions_match(a["conditions"] or (), a["matchConditions"] or ()),
    "AddTaints": lambda a: add_taints(a["taints"] or (), a["change"] or (), a["now"]),
    "RemoveTaints": lambda a: remove_taints(a["taints"] or (), a["change"] or ()),
    "EvictBinding": _evict,
    "UnhealthyClusters": _unhealthy,
    "DetectFailure": _detect,
    "RemedyActions": lambda a: actions(a["cluster"], a["remedies"] or ()),
}
_ERRORS = (AppliedPlacementError, StateError, PurgeRefused)


def _filled(value: Any) -> Any:
    """Without members that are empty: they mean the same as absent ones."""
    if isinstance(value, dict):
        kept = {key: _filled(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [_filled(item) for item in value]
    return value


def run(case: Case) -> bool | None:
    """Whether a case comes out as recorded."""
    call = _CALLS.get(case["function"])
    if call is None:
        return None
    try:
        result = call(case["args"])
    except _ERRORS:
        return "error" in case
    return "error" not in case and (_filled(result) or None) == (_filled(case.get("result")) or None)


FILES = {"failover": run}

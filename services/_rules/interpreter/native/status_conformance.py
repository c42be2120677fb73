"""Completes collected and summed statuses: to what API servers of Kubernetes 1.27 to 1.36 take, and clients wait for.

The rules beside are Karmada's as they were recorded; what a real API server refuses of their results, and what
`kubectl rollout status`, `kubectl wait`, Argo CD and Flux miss in them, is added here (docs/sources.md#status).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.int_or_percent import scaled_value
from services._rules.interpreter.common.interpretation import Operation, object_at, whole_number
from services._rules.interpreter.native.native_kinds import NativeInterpreter
from services._rules.interpreter.native.statuses import Items, finished, reports
from services._rules.interpreter.native.time_format import canonical_time

_POD_CONDITIONS: Final = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_SCALER_CONDITIONS: Final = ("AbleToScale", "ScalingActive", "ScalingLimited")
_MOST_CONDITIONS: Final = 8
_LONGEST_REASON: Final = 64


class ConformingInterpreter(NativeInterpreter):
    """The built-in interpretation as services use it."""

    def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation; see NativeInterpreter. Aggregation needs the reports and the time (RFC 3339)."""
        result = super().interpret(operation, obj, *arguments)
        kind = (obj.get("apiVersion"), obj.get("kind"))
        if operation == Operation.STATUS and result is not None and (more := _MORE_REPORTED.get(kind)) is not None:
            return {**result, **more(obj["status"])}
        if operation == Operation.AGGREGATE and (complete := _COMPLETED.get(kind)) is not None:
            items, now = arguments
            return complete(obj, result, items, now)
        return result


def _numbers(*names: str) -> Callable[[Manifest], Manifest]:
    def found(status: Manifest) -> Manifest:
        numbers = {name: whole_number(status.get(name), f"status.{name}") for name in names}
        return {name: number for name, number in numbers.items() if number}

    return found


def _scaler_conditions(status: Manifest) -> Manifest:
    conditions = [
        {name: str(entry.get(name) or "")[:_LONGEST_REASON] for name in ("type", "status", "reason")}
        for entry in (status.get("conditions") or ())[:_MOST_CONDITIONS]
        if entry and entry.get("type") in _SCALER_CONDITIONS
    ]
    return {"conditions": conditions} if conditions else {}


_MORE_REPORTED: Final[Mapping[tuple[Any, Any], Callable[[Manifest], Manifest]]] = {
    ("apps/v1", "StatefulSet"): _numbers("observedGeneration"),
    ("apps/v1", "ReplicaSet"): _numbers("fullyLabeledReplicas"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _scaler_conditions,
}


def _replaced(obj: Manifest, summed: Manifest, status: Manifest) -> Manifest:
    """The sum with another status; the object itself where it has that status already."""
    if status == (obj.get("status") or {}):
        return obj
    return {**summed, "status": status}


def _with_conditions(old: Manifest, wanted: Sequence[Manifest], now: str, *stamps: str) -> list[Manifest]:
    """The conditions, dated `now` by each of `stamps` where they changed; others that were there stay."""
    before = {entry.get("type"): entry for entry in old.get("conditions") or () if entry}
    types = {entry["type"] for entry in wanted}
    found = [entry for name, entry in before.items() if name not in types]
    for entry in wanted:
        known = before.get(entry["type"], {})
        same = all(known.get(name) == value for name, value in entry.items())
        kept = known.get("lastTransitionTime") if known.get("status") == entry["status"] else None
        dates = {name: kept if kept and name == "lastTransitionTime" else now for name in stamps}
        found.append(known if same else {**entry, **dates})
    return found


def _deployment(obj: Manifest, summed: Manifest, items: Items, now: str) -> Manifest:
    status, spec, old = dict(object_at(summed, "status")), object_at(obj, "spec"), object_at(obj, "status")
    generation = object_at(obj, "metadata").get("generation") or 0
    replicas, updated, available = (
        int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    desired = max(1 if spec.get("replicas") is None else int(spec["replicas"]), replicas)
    enough = available >= desired - _unavailable(spec, desired)
    rolled = (status.get("observedGeneration") or 0) >= generation and replicas == updated == available >= desired
    wanted = [
        {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        },
        {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if rolled else "ReplicaSetUpdated",
            "message": "Each cluster runs the present template." if rolled else "Clusters are being updated.",
        },
    ]
    # Until a controller has seen a copy there is nothing to say, and nothing to write.
    if any(member.get("observedGeneration") for _, member in reports("Deployment", items)):
        status["conditions"] = _with_conditions(old, wanted, now, "lastUpdateTime", "lastTransitionTime")
    return _replaced(obj, summed, status)


def _unavailable(spec: Manifest, desired: int) -> int:
    """How many replicas may be away during a rollout (Kubernetes rounds down, and lets one go where nothing may)."""
    strategy = object_at(spec, "strategy")
    if strategy.get("type") == "Recreate" or not desired:
        return 0
    rolling = object_at(strategy, "rollingUpdate")
    share = scaled_value(rolling.get("maxUnavailable", "25%"), desired, up=False)
    if not share and not scaled_value(rolling.get("maxSurge", "25%"), desired, up=True):
        share = 1
    return min(share, desired)


def _stateful_set(obj: Manifest, summed: Manifest, items: Items, _now: str) -> Manifest:
    """observedGeneration follows the template once each member runs it; the recorded rule never sees that."""
    generation = whole_number(object_at(obj, "metadata").get("generation"), "metadata.generation")
    current = [
        (member.get("observedGeneration") or 0) >= (member.get("generation") or 0)
        and (member.get("resourceTemplateGeneration") or 0) >= generation
        for _, member in reports("StatefulSet", items)
    ]
    status, old = dict(object_at(summed, "status")), object_at(obj, "status").get("observedGeneration") or 0
    reached = generation if all(current) and len(current) == len(items or ()) else old
    status.pop("observedGeneration", None)
    return _replaced(obj, summed, {**status, "observedGeneration": reached} if reached else status)


def _replica_set(obj: Manifest, summed: Manifest, items: Items, _now: str) -> Manifest:
    labelled = sum(int(member.get("fullyLabeledReplicas") or 0) for _, member in reports("ReplicaSet", items))
    status = {name: value for name, value in object_at(summed, "status").items() if name != "fullyLabeledReplicas"}
    return _replaced(obj, summed, {**status, "fullyLabeledReplicas": labelled} if labelled else status)


def _joined(kind: str, types: Iterable[str], items: Items) -> list[Manifest]:
    """Conditions that are true where they are in each cluster; those that no cluster reports are left out."""
    told = [
        (cluster, {entry["type"]: entry for entry in member.get("conditions") or () if entry and entry.get("type")})
        for cluster, member in reports(kind, items)
    ]
    found = []
    for name in types:
        if not any(name in conditions for _, conditions in told):
            continue
        lacking = [(cluster, conditions.get(name, {})) for cluster, conditions in told]
        lacking = [(cluster, entry) for cluster, entry in lacking if entry.get("status") != "True"]
        wanted = {"type": name, "status": "True" if not lacking and len(told) == len(items or ()) else "False"}
        if lacking:
            wanted["reason"] = str(lacking[0][1].get("reason") or "NotReported")
            wanted["message"] = f"not so in {', '.join(cluster for cluster, _ in lacking)}"
        found.append(wanted)
    return found


def _pod(obj: Manifest, summed: Manifest, items: Items, now: str) -> Manifest:
    """Conditions, and container statuses told apart: one that ended must not look as if it ran again."""
    if items is None:
        return summed
    status, old = dict(object_at(summed, "status")), object_at(obj, "status")
    for part in ("containerStatuses", "initContainerStatuses"):
        names = [
            f"{(entry or {}).get('name') or 'container'}.{cluster}"
            for cluster, member in reports("Pod", items)
            for entry in member.get(part) or ()
        ]
        if names:
            status[part] = [{**entry, "name": name} for entry, name in zip(status[part], names, strict=True)]
    conditions = _with_conditions(old, _joined("Pod", _POD_CONDITIONS, items), now, "lastTransitionTime")
    if conditions:
        status["conditions"] = conditions
    return _replaced(obj, summed, status)


def _autoscaler(obj: Manifest, summed: Manifest, items: Items, now: str) -> Manifest:
    status = dict(object_at(summed, "status"))
    wanted = _joined("HorizontalPodAutoscaler", _SCALER_CONDITIONS, items)
    if wanted:
        status["conditions"] = _with_conditions(object_at(obj, "status"), wanted, now, "lastTransitionTime")
    return _replaced(obj, summed, status)


def _job(obj: Manifest, summed: Manifest, items: Items, now: str) -> Manifest:
    """A Job that ends as API servers since 1.31 want it: by two conditions, with both times, and when nothing runs.

    Counts never fall, also not when a cluster that counted is left.
    """
    old, status = object_at(obj, "status"), dict(object_at(summed, "status"))
    if finished(old):
        return summed
    for name in ("succeeded", "failed"):
        highest = max(int(old.get(name) or 0), int(status.get(name) or 0))
        if highest:
            status[name] = highest
    found = {entry["type"]: entry for entry in status.pop("conditions", ())}
    kept = [
        entry
        for entry in old.get("conditions") or ()
        if entry and entry.get("type") == "FailureTarget" and entry.get("status") == "True"
    ]
    failed = found.get("Failed") or next(iter(kept), None)
    end = status.pop("completionTime", None)
    conclusion: list[Manifest] = []
    if failed is not None:
        conclusion = kept or [{**failed, "type": "FailureTarget"}]
        if not status.get("active"):
            conclusion = [*conclusion, {**failed, "type": "Failed", "lastProbeTime": now, "lastTransitionTime": now}]
    elif "Complete" in found and not status.get("active"):
        complete = found["Complete"]
        met = found.get("SuccessCriteriaMet") or {
            **complete,
            "type": "SuccessCriteriaMet",
            "reason": "CompletionsReached",
            "message": "The Job is complete in each cluster",
        }
        conclusion = [met, complete]
        status["completionTime"] = end or now
    if conclusion:
        status["conditions"] = conclusion
    if finished(status):
        started = [canonical_time(member.get("startTime"), "startTime") for _, member in reports("Job", items)]
        ended = status.get("completionTime", now)
        status.setdefault("startTime", min((moment for moment in started if moment), default=ended))
        if "completionTime" in status:
            status["completionTime"] = max(ended, status["startTime"])
    return _replaced(obj, summed, status)


_COMPLETED: Final[Mapping[tuple[Any, Any], Callable[[Manifest, Manifest, Items, str], Manifest]]] = {
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("batch/v1", "Job"): _job,
    ("v1", "Pod"): _pod,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
}

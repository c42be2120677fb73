"""Folds the statuses of members into that of a template, by kind (docs/sources.md#status)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, describe, object_at, whole_number
from services._rules.interpreter.common.shape_checks import check_status
from services._rules.interpreter.native.time_format import canonical_time

# One member's report: clusterName, status, applied, appliedMessage, health.
Item: TypeAlias = dict[str, Any]
Items: TypeAlias = Sequence[Item] | None

# The first phase that some member reports is the template's.
_POD_PHASES: Final = ("Failed", "Pending", "Running", "Succeeded")
_VOLUME_PHASES: Final = ("Failed", "Pending", "Available", "Bound", "Released")
_BUDGET_SUMS: Final = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
# Counters that are summed; the second set is written even when zero.
_SUMS: Final[dict[str, tuple[tuple[str, ...], frozenset[str]]]] = {
    "Deployment": (
        ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas"),
        frozenset(),
    ),
    "ReplicaSet": (("replicas", "readyReplicas", "availableReplicas"), frozenset({"replicas"})),
    "DaemonSet": (
        (
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberAvailable",
            "numberMisscheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberUnavailable",
        ),
        frozenset({"currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"}),
    ),
    "StatefulSet": (
        ("availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"),
        frozenset({"replicas", "availableReplicas"}),
    ),
}


def reports(kind: str, items: Items) -> Iterator[tuple[str, Manifest]]:
    """Cluster and status of every item that has one; raises InterpretError where a status has not the kind's shape."""
    for item in items or ():
        status = item.get("status")
        if status is None:
            continue
        cluster = str(item.get("clusterName") or "")
        field = f"aggregatedStatus[{cluster}].status"
        if type(status) is not dict:
            raise InterpretError(f"is {describe(status)}, expected an object", field)
        check_status(kind, status, field)
        yield cluster, status


def with_status(obj: Manifest, status: Manifest) -> Manifest:
    """The object with another status, or the same object where nothing changes; zero and absent are the same."""
    old = obj.get("status")
    if old == status or _significant(old or {}) == _significant(status):
        return obj
    return {**obj, "status": status}


def _significant(status: Any) -> Any:
    if isinstance(status, dict):
        members = {name: _significant(value) for name, value in status.items()}
        return {name: value for name, value in members.items() if value}
    if isinstance(status, list):
        return [_significant(entry) for entry in status]
    return status


def aggregate_workload(obj: Manifest, items: Items) -> Manifest:
    """Sums the counters of Deployment, ReplicaSet, DaemonSet or StatefulSet.

    observedGeneration follows the template's generation once every member has observed it.
    """
    kind = str(obj.get("kind"))
    names, always = _SUMS[kind]
    generation = whole_number(object_at(obj, "metadata").get("generation"), "metadata.generation")
    sums = dict.fromkeys(names, 0)
    current = 0
    for _, member in reports(kind, items):
        for name in names:
            value = member.get(name)
            if value:
                sums[name] += int(value)
        observed = member.get("generation") or 0
        # Karmada compares a StatefulSet's template generation with the member's own; its users see that.
        needed = observed if kind == "StatefulSet" else generation
        if (member.get("observedGeneration") or 0) >= observed and (
            member.get("resourceTemplateGeneration") or 0
        ) >= needed:
            current += 1
    old = object_at(obj, "status")
    reached = generation if current == len(items or ()) else (old.get("observedGeneration") or 0)
    if reached == (old.get("observedGeneration") or 0) and all(sums[name] == (old.get(name) or 0) for name in names):
        return obj
    status = {name: value for name, value in old.items() if name not in sums and name != "observedGeneration"}
    status.update((name, number) for name, number in sums.items() if number or name in always)
    if reached:
        status["observedGeneration"] = reached
    return {**obj, "status": status}


def aggregate_job(obj: Manifest, items: Items, now: str) -> Manifest:
    """Sums a Job's counters and concludes once its members have; `now` (RFC 3339) dates the conditions.

    A Job that is finished stays as it is.
    """
    old = object_at(obj, "status")
    if finished(old):
        return obj
    sums = {"active": 0, "succeeded": 0, "failed": 0}
    starts: list[str] = []
    ends: list[str] = []
    failed: list[str] = []
    completed = met = 0
    for cluster, member in reports("Job", items):
        for name in sums:
            sums[name] += int(member.get(name) or 0)
        outcome = finished(member)
        if outcome == "Complete":
            completed += 1
        elif outcome == "Failed":
            failed.append(cluster)
        met += _is_true(member, "SuccessCriteriaMet")
        for name, moments in (("startTime", starts), ("completionTime", ends)):
            moment = canonical_time(member.get(name), f"aggregatedStatus[{cluster}].status.{name}")
            if moment is not None:
                moments.append(moment)
    count = len(items or ())
    status: Manifest = {name: number for name, number in sums.items() if number}
    conditions = []
    if failed:
        message = f"Job executed failed in member clusters {','.join(failed)}"
        conditions.append(_condition("Failed", "JobFailed", message, now))
    if count and completed == count:
        conditions.append(_condition("Complete", "Completed", "Job completed", now))
        if met == count:
            message = "All member clusters have met success criteria"
            conditions.append(_condition("SuccessCriteriaMet", "CompletionsReached", message, now))
    if conditions:
        status["conditions"] = conditions
    started = canonical_time(old.get("startTime"), "status.startTime")
    if started is None and starts and len(starts) == count:
        started = min(starts)
    if started is not None:
        status["startTime"] = started
    if ends and len(ends) == count:
        status["completionTime"] = max(ends)
    return with_status(obj, status)


def finished(status: Manifest) -> str:
    """Complete or Failed, whichever condition is true first; empty while a Job runs."""
    for condition in status.get("conditions") or ():
        if condition and condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return str(condition["type"])
    return ""


def _is_true(status: Manifest, condition_type: str) -> bool:
    return any(
        condition and condition.get("type") == condition_type and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _condition(condition_type: str, reason: str, message: str, now: str) -> Manifest:
    return {
        "type": condition_type,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def aggregate_cron_job(obj: Manifest, items: Items) -> Manifest:
    """Joins the active Jobs of a CronJob and takes the latest times."""
    active: list[Manifest] = []
    latest: dict[str, str] = {}
    for cluster, member in reports("CronJob", items):
        active.extend(member.get("active") or ())
        for name in ("lastScheduleTime", "lastSuccessfulTime"):
            moment = canonical_time(member.get(name), f"aggregatedStatus[{cluster}].status.{name}")
            if moment is not None and moment > latest.get(name, ""):
                latest[name] = moment
    status: Manifest = dict(latest)
    if active:
        status["active"] = active
    return with_status(obj, status)


def aggregate_pod(obj: Manifest, items: Items) -> Manifest:
    """Takes the gravest phase of the members and joins their container statuses; no items leave a Pod untouched."""
    if items is None:
        return obj
    phases: set[str] = set()
    if any(item.get("status") is None for item in items):
        phases.add("Pending")
    containers: dict[str, list[Manifest]] = {"containerStatuses": [], "initContainerStatuses": []}
    for _, member in reports("Pod", items):
        phases.add(member.get("phase") or "")
        for name, joined in containers.items():
            joined.extend(_container(entry or {}) for entry in member.get(name) or ())
    status: Manifest = {name: joined for name, joined in containers.items() if joined}
    phase = next((phase for phase in _POD_PHASES if phase in phases), "")
    if phase:
        status["phase"] = phase
    return with_status(obj, status)


def _container(entry: Manifest) -> Manifest:
    """What counts of a container on a template: whether it is ready, and its state; the rest is its zero value."""
    return {
        "name": "",
        "image": "",
        "imageID": "",
        "ready": bool(entry.get("ready")),
        "restartCount": 0,
        "state": _state(entry.get("state") or {}),
        "lastState": {},
    }


def _state(state: Manifest) -> Manifest:
    copy = {}
    for name, details in state.items():
        if type(details) is dict:
            details = {
                field: canonical_time(value, f"state.{name}.{field}") if field in ("startedAt", "finishedAt") else value
                for field, value in details.items()
            }
        copy[name] = details
    return copy


def aggregate_service(obj: Manifest, items: Items) -> Manifest:
    """Merges the load balancer entries of a Service; other types have no status to merge."""
    if object_at(obj, "spec").get("type") != "LoadBalancer":
        return obj
    return with_status(obj, _balanced(_entries("Service", items)))


def aggregate_ingress(obj: Manifest, items: Items) -> Manifest:
    """Merges the load balancer entries of an Ingress."""
    return with_status(obj, _balanced(_entries("Ingress", items)))


def _entries(kind: str, items: Items) -> list[Manifest]:
    entries: list[Manifest] = []
    for _, member in reports(kind, items):
        entries.extend(entry or {} for entry in (member.get("loadBalancer") or {}).get("ingress") or ())
    return entries


def _balanced(entries: list[Manifest]) -> Manifest:
    merged = merge_load_balancer_ingress(entries)
    return {"loadBalancer": {"ingress": merged} if merged else {}}


def merge_load_balancer_ingress(entries: Iterable[Manifest]) -> list[Manifest]:
    """One entry per host name, address and mode, with the ports of all; in a stable order."""
    merged: dict[tuple[str, str, str | None], list[Manifest]] = {}
    for entry in entries:
        key = (entry.get("hostname") or "", entry.get("ip") or "", entry.get("ipMode"))
        merged.setdefault(key, []).extend(port or {} for port in entry.get("ports") or ())
    result = []
    for hostname, address, mode in sorted(merged, key=_place):
        united: Manifest = {}
        if address:
            united["ip"] = address
        if hostname:
            united["hostname"] = hostname
        if mode is not None:
            united["ipMode"] = mode
        ports = {_port_key(port): port for port in reversed(merged[hostname, address, mode])}
        if ports:
            united["ports"] = [ports[key] for key in sorted(ports)]
        result.append(united)
    return result


def _place(key: tuple[str, str, str | None]) -> tuple[bool, str, str, bool, str]:
    """Entries with a host name first, then by address and mode, those without a mode before those with one."""
    hostname, address, mode = key
    return (not hostname, hostname, address, mode is not None, mode or "")


def _port_key(port: Manifest) -> tuple[int, str, str]:
    return (int(port.get("port") or 0), port.get("protocol") or "", port.get("error") or "")


def aggregate_budget(obj: Manifest, items: Items) -> Manifest:
    """Sums a PodDisruptionBudget's counters and names its disrupted pods by cluster."""
    status: dict[str, Any] = dict.fromkeys(_BUDGET_SUMS, 0)
    disrupted: dict[str, str | None] = {}
    for cluster, member in reports("PodDisruptionBudget", items):
        for name in _BUDGET_SUMS:
            status[name] += int(member.get(name) or 0)
        for pod, moment in (member.get("disruptedPods") or {}).items():
            disrupted[f"{cluster}/{pod}"] = canonical_time(moment, "disruptedPods")
    if disrupted:
        status["disruptedPods"] = disrupted
    return obj if obj.get("status") == status else {**obj, "status": status}


def aggregate_autoscaler(obj: Manifest, items: Items) -> Manifest:
    """Sums the replica counts of a HorizontalPodAutoscaler."""
    current = desired = 0
    for _, member in reports("HorizontalPodAutoscaler", items):
        current += int(member.get("currentReplicas") or 0)
        desired += int(member.get("desiredReplicas") or 0)
    status: Manifest = {"desiredReplicas": desired}
    if current:
        status["currentReplicas"] = current
    return with_status(obj, status)


def aggregate_volume(obj: Manifest, items: Items) -> Manifest:
    """Takes the gravest phase of the members; one that has not reported counts as Pending."""
    phases = {member.get("phase") or "" for _, member in reports("PersistentVolume", items)}
    if any(item.get("status") is None for item in items or ()):
        phases.add("Pending")
    phase = next((phase for phase in _VOLUME_PHASES if phase in phases), "")
    return with_status(obj, {"phase": phase} if phase else {})


def aggregate_claim(obj: Manifest, items: Items) -> Manifest:
    """Bound where every member reports it, Lost where one does, otherwise the last other phase."""
    phase = "Bound"
    for _, member in reports("PersistentVolumeClaim", items):
        reported = member.get("phase") or ""
        if reported == "Lost":
            phase = "Lost"
            break
        if reported != "Bound":
            phase = reported
    return with_status(obj, {"phase": phase} if phase else {})

"""Folds the statuses of members into that of a Job, CronJob or Pod template (reference 03 §4.7 and §4.8)."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import object_at
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.time_format import canonical_time
from services._rules.interpreter.native.workload_statuses import Items, reports, with_status

# The first phase that some member reports is the template's.
_POD_PHASES: Final = ("Failed", "Pending", "Running", "Succeeded")


def aggregate_job(obj: Manifest, items: Items, now: str) -> Manifest:
    """Sums a Job's counters and concludes once its members have; `now` (RFC 3339) dates the conditions.

    A Job that is finished stays as it is.
    """
    check_object("Job", obj)
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
    check_object("CronJob", obj)
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
    check_object("Pod", obj)
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

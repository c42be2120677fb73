"""CronJobs: a Job at each scheduled time, within deadline and concurrency policy, and old Jobs cleared away."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from schemas.manifest import Manifest
from services.member_sim.controllers.job import finished_at
from services.member_sim.world.world_model import (
    CRONJOBS,
    JOBS,
    NOTHING,
    Decision,
    Key,
    Turn,
    Write,
    is_true,
    key_of,
    owner_reference,
    seconds,
    stamp,
)
from services.member_sim.world.world_state import State

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LOOK_BACK = 86_400.0
"""Seconds of missed times that are evaluated after a pause; a Job is created for the last of them only."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"@every\s+(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def decide_cronjob(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one CronJob."""
    owner = state.find(key)
    if owner is None or "deletionTimestamp" in owner["metadata"] or state.closing(key.namespace):
        return NOTHING
    spec = owner["spec"]
    jobs = state.children(owner["metadata"]["uid"], JOBS)
    active = [job for job in jobs if finished_at(job) is None and "deletionTimestamp" not in job["metadata"]]
    old = owner.get("status") or {}
    writes = _outlived(spec, jobs)
    status: Manifest = {name: old[name] for name in ("lastScheduleTime", "lastSuccessfulTime") if name in old}
    wake: float | None = None
    if not spec.get("suspend"):
        due, wake = _times(owner, turn.now)
        if due is not None:
            started, replaced = _start(owner, key, due, active)
            writes += replaced
            if started is not None and state.find(started.key) is None:
                writes.append(started)
            if started is not None:
                status["lastScheduleTime"] = stamp(due)
    done = [
        job["status"]["completionTime"]
        for job in jobs
        if is_true(job, "Complete") and job["status"].get("completionTime")
    ]
    if done:
        status["lastSuccessfulTime"] = max(done)
    if active:
        known = {reference.get("uid"): reference for reference in old.get("active") or ()}
        active.sort(key=lambda job: str(job["metadata"]["name"]))
        status["active"] = [known.get(job["metadata"]["uid"]) or _reference(job) for job in active]
    if status != old:
        writes.append(Write("status", key, status, uid=owner["metadata"]["uid"]))
    return Decision(writes, wake)


def _times(owner: Manifest, now: float) -> tuple[float | None, float | None]:
    """Return the last time that is due and not too late, and the next one to come."""
    spec = owner["spec"]
    zone = spec.get("timeZone") or ""
    last = (owner.get("status") or {}).get("lastScheduleTime") or owner["metadata"].get("creationTimestamp") or ""
    start = max(seconds(last), now - _LOOK_BACK)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        start = max(start, now - deadline - 1)
    due: float | None = None
    upcoming = next_after(spec["schedule"], zone, start)
    while upcoming is not None and upcoming <= now:
        due = upcoming
        upcoming = next_after(spec["schedule"], zone, upcoming)
    if due is not None and deadline is not None and now > due + deadline:
        due = None
    return due, upcoming


def next_after(schedule: str, zone: str, after: float) -> float | None:
    """Return the first time (Unix seconds) after ``after``.

    There is none where a schedule never fires, or where it or the zone cannot be read: the API server refuses those.
    """
    text = schedule.strip()
    if every := _EVERY.fullmatch(text):
        hours, minutes, rest = (int(part or 0) for part in every.groups())
        return after // 1 + (hours * 60 + minutes) * 60 + rest if any((hours, minutes, rest)) else None
    fields = _DESCRIPTORS.get(text, text).replace("?", "*")
    if len(fields.split()) != 5:
        return None
    try:
        found = CronSim(fields, datetime.fromtimestamp(after, ZoneInfo(zone) if zone else UTC))
        return next(found).timestamp()
    except (CronSimError, StopIteration, ZoneInfoNotFoundError, ValueError):
        return None


def _start(owner: Manifest, key: Key, due: float, active: list[Manifest]) -> tuple[Write | None, list[Write]]:
    """Return the Job to create, if the running ones allow it, and those that it replaces."""
    policy = owner["spec"].get("concurrencyPolicy") or "Allow"
    if active and policy == "Forbid":
        return None, []
    replaced = active if policy == "Replace" else []
    template = owner["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    body: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{key.name}-{int(due) // 60}",
            "namespace": key.namespace,
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED: stamp(due)},
            "ownerReferences": [owner_reference(CRONJOBS, owner)],
        },
        "spec": template["spec"],
    }
    return Write("create", key_of(JOBS, body), body), _removals(replaced)


def _outlived(spec: Manifest, jobs: list[Manifest]) -> list[Write]:
    """Return the removal of finished Jobs beyond the history limits, oldest first."""
    gone: list[Manifest] = []
    for kind, limit in (
        ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
        ("Failed", spec.get("failedJobsHistoryLimit", 1)),
    ):
        ended = [job for job in jobs if is_true(job, kind) and "deletionTimestamp" not in job["metadata"]]
        ended.sort(key=lambda job: (finished_at(job) or 0.0, str(job["metadata"]["name"])))
        gone += ended[: max(len(ended) - limit, 0)]
    return _removals(gone)


def _removals(jobs: list[Manifest]) -> list[Write]:
    return [Write("delete", key_of(JOBS, job), uid=job["metadata"]["uid"]) for job in jobs]


def _reference(job: Manifest) -> Manifest:
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "resourceVersion": meta["resourceVersion"],
        "uid": meta["uid"],
    }

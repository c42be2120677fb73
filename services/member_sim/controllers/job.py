"""Jobs: pods that run to completion, how many at once, when the Job is done or has failed."""

from schemas.manifest import Manifest
from services.member_sim.controllers.pod_scheduling import Placer, placed_pod
from services.member_sim.controllers.replicaset import removals
from services.member_sim.world.pod_reading import is_active, is_finished, is_ready, pod_from
from services.member_sim.world.world_model import (
    JOBS,
    NOTHING,
    PODS,
    Decision,
    Key,
    Turn,
    Write,
    condition,
    key_of,
    seconds,
    stamp,
)
from services.member_sim.world.world_state import State

INDEX = "batch.kubernetes.io/job-completion-index"


def decide_job(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one Job."""
    job = state.find(key)
    if job is None or "deletionTimestamp" in job["metadata"]:
        return NOTHING
    done = finished_at(job)
    if done is not None:
        return _after_end(job, key, done, turn)
    if state.closing(key.namespace):
        return NOTHING
    spec = job["spec"]
    pods = state.children(job["metadata"]["uid"], PODS)
    active = [pod for pod in pods if is_active(pod)]
    succeeded = [pod for pod in pods if _phase(pod) == "Succeeded"]
    failed = sum(1 for pod in pods if _phase(pod) == "Failed")
    started = (job.get("status") or {}).get("startTime") or ("" if spec.get("suspend") else stamp(turn.now))
    outcome, deadline = _outcome(spec, active, succeeded, failed, started, turn.now)
    if outcome is not None:
        writes = removals([pod for pod in active if outcome[0] == "Failed"])
    elif spec.get("suspend"):
        writes = removals(active)
    else:
        writes = _wanted_pods(state, job, active, succeeded, turn)
    created = sum(1 for write in writes if write.op == "create")
    status = _status(job, active, succeeded, failed, started, outcome, turn.now, created)
    if status != job.get("status") and not (created and (job.get("status") or {}).get("startTime")):
        writes.append(Write("status", key, status, uid=job["metadata"]["uid"]))
    return Decision(writes, deadline)


def finished_at(job: Manifest) -> float | None:
    """Return when the Job completed or failed, none while it has not."""
    for kind in ("Complete", "Failed"):
        entry = condition(job, kind)
        if entry is not None and entry.get("status") == "True":
            return seconds(entry.get("lastTransitionTime") or "")
    return None


def _after_end(job: Manifest, key: Key, done: float, turn: Turn) -> Decision:
    lifetime = job["spec"].get("ttlSecondsAfterFinished")
    if lifetime is None:
        return NOTHING
    if turn.now >= done + lifetime:
        return Decision([Write("delete", key, uid=job["metadata"]["uid"])])
    return Decision([], done + lifetime)


def _outcome(
    spec: Manifest, active: list[Manifest], succeeded: list[Manifest], failed: int, started: str, now: float
) -> tuple[tuple[str, str, str] | None, float | None]:
    """Return condition type, reason and message once the Job has ended, and the deadline otherwise."""
    limit = spec.get("backoffLimit", 6)
    if failed > limit:
        return ("Failed", "BackoffLimitExceeded", f"{failed} pods failed, {limit} retries are allowed."), None
    completions = spec.get("completions")
    if completions is None:
        complete = bool(succeeded) and not active
    else:
        complete = _done(spec, succeeded) >= completions
    if complete:
        return ("Complete", "CompletionsReached", "All wanted completions were reached."), None
    allowed = spec.get("activeDeadlineSeconds")
    if allowed is None or not started or spec.get("suspend"):
        return None, None
    deadline = seconds(started) + allowed
    if now >= deadline:
        return ("Failed", "DeadlineExceeded", f"The Job was active for more than {allowed} s."), None
    return None, deadline


def _wanted_pods(
    state: State, job: Manifest, active: list[Manifest], succeeded: list[Manifest], turn: Turn
) -> list[Write]:
    spec = job["spec"]
    parallelism = spec.get("parallelism", 1)
    completions = spec.get("completions")
    if completions is None:
        wanted = len(active) if succeeded else parallelism
    else:
        wanted = min(parallelism, completions - _done(spec, succeeded))
    if len(active) > wanted:
        return removals(active[wanted:])
    indexes: list[int | None] = [None] * (wanted - len(active))
    if spec.get("completionMode") == "Indexed" and completions is not None:
        taken = {_index(pod) for pod in (*active, *succeeded)}
        free: list[int | None] = [number for number in range(completions) if number not in taken]
        indexes = free[: len(indexes)]
    if not indexes:
        return []
    placer = Placer(state, turn, spec["template"].get("spec") or {})
    return [_create(job, placer, index, turn) for index in indexes]


def _create(job: Manifest, placer: Placer, index: int | None, turn: Turn) -> Write:
    meta = job["metadata"]
    labels = {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    name = f"{meta['name']}-{turn.ids.suffix()}"
    annotations = None
    if index is not None:
        name = f"{meta['name']}-{index}-{turn.ids.suffix()}"
        annotations = {INDEX: str(index)}
        labels[INDEX] = str(index)
    pod = pod_from(JOBS, job, job["spec"]["template"], name=name, labels=labels, annotations=annotations)
    return Write("create", key_of(PODS, pod), placed_pod(placer, pod))


def _status(
    job: Manifest,
    active: list[Manifest],
    succeeded: list[Manifest],
    failed: int,
    started: str,
    outcome: tuple[str, str, str] | None,
    now: float,
    created: int,
) -> Manifest:
    old = job.get("status") or {}
    running = 0 if outcome is not None else len(active) + created
    numbers = {
        "active": running,
        "succeeded": _done(job["spec"], succeeded),
        "failed": failed + (len(active) if outcome is not None and outcome[0] == "Failed" else 0),
    }
    status: Manifest = {name: number for name, number in numbers.items() if number}
    status["ready"] = sum(1 for pod in active if is_ready(pod)) if running else 0
    status["terminating"] = 0
    status["uncountedTerminatedPods"] = {}
    if started:
        status["startTime"] = started
    if job["spec"].get("completionMode") == "Indexed" and succeeded:
        status["completedIndexes"] = _ranges(sorted({_index(pod) for pod in succeeded}))
    conditions = [c for c in old.get("conditions") or () if c["type"] != "Suspended"]
    suspended = bool(job["spec"].get("suspend"))
    before = condition(job, "Suspended")
    if before is not None or suspended:
        reason = "JobSuspended" if suspended else "JobResumed"
        if before is not None and before["reason"] == reason:
            conditions.append(before)
        else:
            conditions.append(_condition("Suspended", str(suspended), reason, "As spec.suspend asks.", now))
    if outcome is not None:
        # Since 1.31 another condition says so before the last pod is gone; here it is at once.
        first = "FailureTarget" if outcome[0] == "Failed" else "SuccessCriteriaMet"
        conditions += [_condition(kind, "True", outcome[1], outcome[2], now) for kind in (first, outcome[0])]
        if outcome[0] == "Complete":
            status["completionTime"] = stamp(now)
    if conditions:
        status["conditions"] = conditions
    return status


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> Manifest:
    at = stamp(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }


def _done(spec: Manifest, succeeded: list[Manifest]) -> int:
    if spec.get("completionMode") == "Indexed":
        return len({_index(pod) for pod in succeeded})
    return len(succeeded)


def _index(pod: Manifest) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def _ranges(numbers: list[int]) -> str:
    """Return sorted numbers as "0-3,5"."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1] = [groups[-1][0], number]
        else:
            groups.append([number])
    return ",".join(str(g[0]) if len(g) == 1 else f"{g[0]}-{g[1]}" for g in groups)


def _phase(pod: Manifest) -> str:
    if not is_finished(pod):
        return ""
    return str(pod["status"]["phase"])

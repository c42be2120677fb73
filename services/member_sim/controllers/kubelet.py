"""The kubelet: a pod with a node starts, becomes ready, crashes, completes, loses its node, or terminates."""

from typing import Literal
from zlib import crc32

from schemas.manifest import Manifest
from services.member_sim.controllers.pod_scheduling import tolerates
from services.member_sim.world.pod_reading import is_finished, starts_at
from services.member_sim.world.world_model import (
    JOBS,
    NODES,
    NOTHING,
    Decision,
    Key,
    Turn,
    Write,
    condition,
    earliest,
    is_true,
    seconds,
    stamp,
)
from services.member_sim.world.world_state import State

Stage = Literal["Waiting", "Running", "Crashing", "Succeeded", "Failed", "Unreachable"]

_EPHEMERAL = "ephemeralContainerStatuses"
ORPHAN_PATIENCE = 2.0
"""Seconds that a pod is kept whose node does not exist."""


def decide_pod(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one pod: its status, its end, or its eviction from a tainted node."""
    pod = state.find(key)
    if pod is None:
        return NOTHING
    meta = pod["metadata"]
    node = pod["spec"].get("nodeName")
    if "deletionTimestamp" in meta:
        return _end(state, key, pod, node, turn)
    if not node or is_finished(pod):
        return NOTHING
    host = state.get(NODES, "", node)
    if host is None:
        # A pod does not outlive its node; but a node may also just not have been seen yet.
        until = state.placed_at.get(meta["uid"], turn.now) + ORPHAN_PATIENCE
        if turn.now < until:
            return Decision([], until)
        return Decision([Write("delete", key, uid=meta["uid"], grace=0)])
    evicted_at = _evicted_at(pod, host, turn.now)
    if evicted_at is not None and evicted_at <= turn.now:
        return Decision([Write("delete", key, uid=meta["uid"])])
    stage, wake = _stage(state, pod, node, turn)
    if stage != _present(pod):
        status = _status(state, pod, host, stage, turn)
    elif stage == "Running" and len(pod["status"].get(_EPHEMERAL) or ()) != len(_ephemeral_of(pod)):
        status = {**pod["status"], _EPHEMERAL: _ephemeral(pod, stage, stamp(turn.now))}
    else:
        return Decision([], earliest(wake, evicted_at))
    return Decision([Write("status", key, status, uid=meta["uid"])], earliest(wake, evicted_at))


def _end(state: State, key: Key, pod: Manifest, node: str | None, turn: Turn) -> Decision:
    """Remove a pod after its containers had time to stop; a stopped kubelet confirms nothing."""
    if node in state.down and state.get(NODES, "", node or "") is not None:
        return NOTHING
    uid = pod["metadata"]["uid"]
    at = state.doomed_at.get(uid, turn.now) + turn.config.terminate_delay
    if node and not is_finished(pod) and turn.now < at:
        return Decision([], at)
    if pod["metadata"].get("deletionGracePeriodSeconds") == 0 and pod["metadata"].get("finalizers"):
        return NOTHING
    return Decision([Write("delete", key, uid=uid, grace=0)])


def _stage(state: State, pod: Manifest, node: str, turn: Turn) -> tuple[Stage, float | None]:
    """Return where the pod should be now, and when that changes by itself."""
    present = _present(pod)
    if node in state.down:
        return ("Waiting" if present == "Waiting" else "Unreachable"), None
    start = starts_at(state, pod, turn.config)
    if present == "Waiting" and start is not None and turn.now < start:
        return "Waiting", start
    owner = state.owner_key(pod)
    runs_to_end = owner is not None and owner.resource == JOBS
    if state.crashes(pod):
        ends = runs_to_end or pod["spec"].get("restartPolicy") == "Never"
        return ("Failed" if ends else "Crashing"), None
    code = state.exited.get(pod["metadata"]["uid"])
    if code is not None and present == "Running" and _stays_ended(pod, code):
        return ("Failed" if code else "Succeeded"), None
    if not runs_to_end:
        return "Running", None
    if present != "Running":
        return "Running", None
    end = (start if start is not None else turn.now) + turn.config.job_run
    return ("Succeeded", None) if turn.now >= end else ("Running", end)


def _stays_ended(pod: Manifest, code: int) -> bool:
    """Whether a main process that ended is not started again."""
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Never" or (policy == "OnFailure" and not code)


def _present(pod: Manifest) -> Stage:
    """Return the stage in the pod's status."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        return "Succeeded" if phase == "Succeeded" else "Failed"
    if phase != "Running":
        return "Waiting"
    if any("waiting" in (c.get("state") or {}) for c in status.get("containerStatuses") or ()):
        return "Crashing"
    return "Running" if is_true(pod, "Ready") else "Unreachable"


def _evicted_at(pod: Manifest, node: Manifest, now: float) -> float | None:
    """Return when the node's NoExecute taints drive the pod out, none when it may stay."""
    first: float | None = None
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") != "NoExecute":
            continue
        covering = [t for t in pod["spec"].get("tolerations") or () if tolerates(t, taint)]
        if not covering:
            return now
        limits = [t["tolerationSeconds"] for t in covering if t.get("tolerationSeconds") is not None]
        if limits:
            since = seconds(taint["timeAdded"]) if taint.get("timeAdded") else now
            first = earliest(first, since + max(min(limits), 0))
    return first


def _status(state: State, pod: Manifest, node: Manifest, stage: Stage, turn: Turn) -> Manifest:
    old = pod.get("status") or {}
    if stage == "Unreachable":
        return {**old, "conditions": _conditions(pod, {"Ready": ("False", "NodeNotReady")}, turn.now)}
    at = stamp(turn.now)
    started = old.get("startTime") or at
    host = next((a["address"] for a in node["status"].get("addresses") or () if a["type"] == "InternalIP"), "")
    addresses = [entry["ip"] for entry in old.get("podIPs") or ()] or _addresses(state, pod, host, turn)
    restarts = max((c.get("restartCount", 0) for c in old.get("containerStatuses") or ()), default=0)
    if stage == "Crashing":
        restarts += 1
    before = {c["name"]: c for c in old.get("containerStatuses") or ()}
    code = state.exited.get(pod["metadata"]["uid"]) or 1
    containers = [
        _container(c, stage, restarts, started, at, before.get(c["name"]), code)
        for c in pod["spec"].get("containers") or ()
    ]
    phase = stage if stage in ("Succeeded", "Failed") else "Running"
    status: Manifest = {**old, "phase": phase}
    ready = ("True", "") if stage == "Running" else ("False", _REASONS.get(stage, ""))
    status["conditions"] = _conditions(
        pod,
        {
            "PodReadyToStartContainers": ("True" if phase == "Running" else "False", ""),
            "Initialized": ("True", "PodCompleted" if stage == "Succeeded" else ""),
            "Ready": ready,
            "ContainersReady": ready,
            "PodScheduled": ("True", ""),
        },
        turn.now,
    )
    status |= {"hostIP": host, "hostIPs": [{"ip": host}]}
    status |= {"podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses]}
    status["startTime"] = started
    status["containerStatuses"] = containers
    initial = pod["spec"].get("initContainers")
    if initial:
        status["initContainerStatuses"] = [_container(c, "Succeeded", 0, started, started) for c in initial]
    if _ephemeral_of(pod):
        status[_EPHEMERAL] = _ephemeral(pod, "Running" if phase == "Running" else stage, at)
    return status


def _ephemeral_of(pod: Manifest) -> list[Manifest]:
    return pod["spec"].get("ephemeralContainers") or []


def _ephemeral(pod: Manifest, stage: Stage, now: str) -> list[Manifest]:
    """The states of the containers that were added to look into the pod: they are never ready, and start once."""
    before = {c["name"]: c for c in (pod.get("status") or {}).get(_EPHEMERAL) or ()}
    return [
        before[c["name"]]
        if stage == "Running" and c["name"] in before
        else {**_container(c, stage, 0, now, now, before.get(c["name"])), "ready": False}
        for c in _ephemeral_of(pod)
    ]


_REASONS = {"Crashing": "ContainersNotReady", "Failed": "PodFailed", "Succeeded": "PodCompleted"}


def _container(
    container: Manifest,
    stage: Stage,
    restarts: int,
    started: str,
    now: str,
    before: Manifest | None = None,
    code: int = 1,
) -> Manifest:
    if before is not None:
        started = ((before.get("state") or {}).get("running") or {}).get("startedAt") or started
    ended = {"exitCode": code, "reason": "Error", "startedAt": started, "finishedAt": now}
    present: Manifest
    last: Manifest = {}
    if stage == "Crashing":
        present = {"waiting": {"reason": "CrashLoopBackOff", "message": "The container keeps exiting."}}
        last = {"terminated": ended}
    elif stage == "Failed":
        present = {"terminated": ended}
    elif stage == "Succeeded":
        present = {"terminated": {**ended, "exitCode": 0, "reason": "Completed"}}
    else:
        present = {"running": {"startedAt": now}}
        # What is known of the run before stays.
        last = (before or {}).get("lastState") or {}
    image = container.get("image", "")
    return {
        "name": container["name"],
        "state": present,
        "lastState": last,
        "ready": stage in ("Running", "Succeeded"),
        "restartCount": restarts,
        "image": image,
        "imageID": image,
        "containerID": f"simulated://{container['name']}",
        "started": stage == "Running",
    }


def _conditions(pod: Manifest, wanted: dict[str, tuple[str, str]], now: float) -> list[Manifest]:
    """Return the pod's conditions with some of them set; times move only where a status changes."""
    found = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    at = stamp(now)
    for kind, (status, reason) in wanted.items():
        old = condition(pod, kind)
        since = at if old is None or old.get("status") != status else old.get("lastTransitionTime") or at
        entry = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
        if reason:
            entry["reason"] = reason
        found[kind] = entry
    return list(found.values())


def _addresses(state: State, pod: Manifest, host: str, turn: Turn) -> list[str]:
    """Return the addresses of a pod: its node's where it shares its network, and one more with both families."""
    if pod["spec"].get("hostNetwork") and host:
        return [host]
    first = _address(state, pod, turn)
    if not turn.config.dual_stack:
        return [first]
    a, b, c, d = (int(part) for part in first.split("."))
    return [first, f"fd00::{a:x}{b:02x}:{(c << 8) + d:x}"]


def _address(state: State, pod: Manifest, turn: Turn) -> str:
    """Return a free address of 10.0.0.0/8, the same for the same pod unless it is taken."""
    uid = pod["metadata"]["uid"]
    number = crc32(uid.encode()) & 0xFFFFFF
    while True:
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        holder = state.addresses.get(address) or turn.reserved.addresses.get(address)
        if number & 255 not in (0, 255) and holder in (None, uid):
            turn.reserved.addresses[address] = uid
            return address
        number = (number + 1) & 0xFFFFFF

"""The table row of a Pod: what state it is in, in one word."""

import datetime as dt
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import created, duration, or_none, parse_time
from services.apiserver.tables.printer import Cells, name_of, part

_COMPLETED: Final = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


def completed(pod: Manifest) -> list[Manifest] | None:
    """Return the conditions of the row: whether the pod has ended."""
    found = _COMPLETED.get(part(pod, "status").get("phase", ""))
    return [found] if found else None


def pod_cells(pod: Manifest, now: dt.datetime) -> Cells:
    """Return the cells of one pod; its restarts say when the last one was."""
    spec, status = part(pod, "spec"), part(pod, "status")
    found = _state(spec, status)
    reason = found.reason
    if pod["metadata"].get("deletionTimestamp"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    addresses = status.get("podIPs") or []
    address = addresses[0].get("ip") if addresses else status.get("podIP")
    total = len(spec.get("containers") or ()) + len(_sidecars(spec))
    return [
        name_of(pod),
        f"{found.ready}/{total}",
        reason,
        found.shown_restarts(now),
        created(pod, now),
        or_none(address),
        or_none(spec.get("nodeName")),
        or_none(status.get("nominatedNodeName")),
        _gates(spec, status),
    ]


class _State:
    """What the containers of a pod add up to."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self._last: dt.datetime | None = None

    def count(self, container: Manifest) -> None:
        """Add the restarts of a container."""
        self.restarts += container.get("restartCount") or 0
        ended = parse_time(part(container, "lastState", "terminated").get("finishedAt"))
        if ended is not None and (self._last is None or ended > self._last):
            self._last = ended

    def shown_restarts(self, now: dt.datetime) -> str:
        """How many restarts, and how long ago the last one was."""
        if not self.restarts or self._last is None:
            return str(self.restarts)
        return f"{self.restarts} ({duration(now - self._last)} ago)"


def _sidecars(spec: Manifest) -> set[str]:
    """Names of init containers that run on beside the others."""
    return {item.get("name", "") for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"}


def _state(spec: Manifest, status: Manifest) -> _State:
    reason = status.get("reason") or status.get("phase") or ""
    gated = (item for item in status.get("conditions") or () if item.get("type") == "PodScheduled")
    if any(item.get("reason") == "SchedulingGated" for item in gated):
        reason = "SchedulingGated"
    first, beside = _State(reason), _State(reason)
    if _initializing(first, beside, spec, status) and not _holds(status, "Initialized"):
        first.ready = beside.ready
        return first
    beside.reason = first.reason
    return _running(beside, status)


def _initializing(first: _State, beside: _State, spec: Manifest, status: Manifest) -> bool:
    """Go through the init containers; whether one of them has not succeeded, which gives the reason."""
    sidecars = _sidecars(spec)
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        sidecar = container.get("name") in sidecars
        first.count(container)
        if sidecar:
            beside.count(container)
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            beside.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            first.reason = f"Init:{terminated.get('reason') or _exit(terminated)}"
        elif waiting is not None and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            first.reason = f"Init:{waiting['reason']}"
        else:
            first.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        return True
    return False


def _running(found: _State, status: Manifest) -> _State:
    """Go through the containers, the last one first."""
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        found.count(container)
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            found.reason = waiting["reason"]
        elif terminated is not None:
            found.reason = terminated.get("reason") or _exit(terminated)
        elif container.get("ready") and state.get("running") is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed" and running:
        found.reason = "Running" if _holds(status, "Ready") else "NotReady"
    return found


def _exit(terminated: Manifest) -> str:
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _holds(status: Manifest, condition: Any) -> bool:
    found = status.get("conditions") or ()
    return any(item.get("type") == condition and item.get("status") == "True" for item in found)


def _gates(spec: Manifest, status: Manifest) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return "<none>"
    return f"{sum(_holds(status, gate.get('conditionType')) for gate in gates)}/{len(gates)}"

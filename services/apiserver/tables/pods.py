"""The table row of a Pod: what state it is in, in one word."""

import datetime as dt
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import created, or_none
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
    """Return the cells of one pod."""
    spec, status = part(pod, "spec"), part(pod, "status")
    reason, restarts, ready = _state(spec, status)
    if pod["metadata"].get("deletionTimestamp"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    addresses = status.get("podIPs") or []
    address = addresses[0].get("ip") if addresses else status.get("podIP")
    return [
        name_of(pod),
        f"{ready}/{len(spec.get('containers') or ())}",
        reason,
        restarts,
        created(pod, now),
        or_none(address),
        or_none(spec.get("nodeName")),
        or_none(status.get("nominatedNodeName")),
        _gates(spec, status),
    ]


def _state(spec: Manifest, status: Manifest) -> tuple[str, int, int]:
    """Return (state, restarts, ready containers)."""
    reason = status.get("reason") or status.get("phase") or ""
    initial = _initializing(spec, status)
    if initial is not None:
        return *initial, 0
    restarts = ready = 0
    for container in reversed(status.get("containerStatuses") or ()):
        restarts += container.get("restartCount") or 0
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = terminated.get("reason") or _exit(terminated)
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if reason == "Completed" and ready:
        reason = "Running" if _is_ready(status) else "NotReady"
    return reason, restarts, ready


def _initializing(spec: Manifest, status: Manifest) -> tuple[str, int] | None:
    """Return (state, restarts) while an init container has not succeeded; None afterwards."""
    restarts = 0
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        restarts += container.get("restartCount") or 0
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if terminated is not None:
            if not terminated.get("exitCode"):
                continue
            return f"Init:{terminated.get('reason') or _exit(terminated)}", restarts
        if waiting is not None and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", restarts
        return f"Init:{index}/{len(spec.get('initContainers') or ())}", restarts
    return None


def _exit(terminated: Manifest) -> str:
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _is_ready(status: Manifest) -> bool:
    return _holds(status, "Ready")


def _holds(status: Manifest, condition: Any) -> bool:
    found = status.get("conditions") or ()
    return any(item.get("type") == condition and item.get("status") == "True" for item in found)


def _gates(spec: Manifest, status: Manifest) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return "<none>"
    return f"{sum(_holds(status, gate.get('conditionType')) for gate in gates)}/{len(gates)}"

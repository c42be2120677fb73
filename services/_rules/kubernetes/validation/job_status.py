"""Checks of writes to the status of a Job: how it ends, and what is final."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, required

_LASTING: Final = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_TOGETHER: Final = (("Complete", "Failed"), ("Complete", "FailureTarget"), ("Failed", "SuccessCriteriaMet"))
_BEFORE: Final = {"Failed": "FailureTarget", "Complete": "SuccessCriteriaMet"}


def job_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with a Job's status, by itself and after the one before."""
    status, before = new.get("status") or {}, old.get("status") or {}
    true = {name for name in _LASTING if _is_true(status, name)}
    waits = bool((old.get("spec") or {}).get("suspend"))
    return [*_by_itself(status, true), *_after(status, before, true, waits=waits)]


def _is_true(status: Manifest, kind: str) -> bool:
    return any(
        entry.get("type") == kind and entry.get("status") == "True" for entry in status.get("conditions") or () if entry
    )


def _by_itself(status: Manifest, true: set[str]) -> Errors:
    active, start, end = status.get("active") or 0, status.get("startTime"), status.get("completionTime")
    if (ready := status.get("ready") or 0) > max(active, 0):
        yield invalid("status.ready", ready, "cannot set more ready pods than active")
    if true & {"Complete", "Failed"}:
        if active:
            yield invalid("status.active", active, "active>0 is invalid for finished job")
        if status.get("terminating"):
            yield invalid("status.terminating", status["terminating"], "terminating>0 is invalid for finished job")
        if not start:
            yield required("status.startTime", "startTime is required for finished job")
        uncounted = status.get("uncountedTerminatedPods") or {}
        if uncounted.get("succeeded") or uncounted.get("failed"):
            text = "uncountedTerminatedPods needs to be empty for finished job"
            yield invalid("status.uncountedTerminatedPods", uncounted, text)
    if "Complete" in true and not end:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if end and "Complete" not in true:
        text = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", end, text)
    if start and end and end < start:
        yield invalid("status.completionTime", end, "completionTime cannot be set before startTime")
    for one, other in _TOGETHER:
        if {one, other} <= true:
            text = f"cannot set {one}=True and {other}=true conditions"
            yield invalid("status.conditions", status["conditions"], text)
    for final, first in _BEFORE.items():
        if final in true and first not in true:
            text = f"cannot set {final}=True condition without the {first}=true condition"
            yield invalid("status.conditions", status["conditions"], text)


def _after(status: Manifest, before: Manifest, true: set[str], *, waits: bool) -> Errors:
    for name in ("succeeded", "failed"):
        if (status.get(name) or 0) < (before.get(name) or 0):
            yield invalid(f"status.{name}", status.get(name) or 0, f"cannot decrease the {name} counter")
    for name in _LASTING:
        if _is_true(before, name) and name not in true:
            text = f"cannot disable the terminal {name}=True condition"
            yield invalid("status.conditions", status.get("conditions") or [], text)
    start = before.get("startTime")
    if start and not waits and status.get("startTime") != start:
        yield invalid("status.startTime", status.get("startTime"), "startTime cannot be changed for unsuspended job")
    end = before.get("completionTime")
    if end and status.get("completionTime") != end:
        yield invalid("status.completionTime", status.get("completionTime"), "completionTime cannot be mutated")

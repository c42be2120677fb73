"""Builds Kubernetes Events about Cluster objects: readiness, taints, execution namespace (docs/sources.md#events)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.involved_objects import cluster_of
from services._rules.kubernetes.event_objects import Note, note_about
from services._rules.names import execution_namespace

CLUSTER: Final = "cluster-controller"
TAINT_POLICY: Final = "cluster-taint-policy-controller"
STATUS: Final = "cluster-status-controller"


def readiness(name: str, uid: str, before: Manifest | None, after: Manifest | None) -> tuple[Note, ...]:
    """The Event about a condition Ready that changed its status or reason; its reason is that of the condition."""
    if after is None or not after.get("reason"):
        return ()
    if before is not None and all(before.get(field) == after.get(field) for field in ("status", "reason")):
        return ()
    warning = after.get("status") != "True"
    return (_note(name, uid, str(after["reason"]), str(after.get("message", "")), STATUS, warning=warning),)


def taints(name: str, uid: str, before: Sequence[Manifest], after: Sequence[Manifest], component: str) -> list[Note]:
    """The Event about taints that a component added and removed; none where they are the same."""
    added = [_taint(taint) for taint in after if not _holds(before, taint)]
    removed = [_taint(taint) for taint in before if not _holds(after, taint)]
    said = [f"{what} {', '.join(found)}" for what, found in (("added", added), ("removed", removed)) if found]
    if not said:
        return []
    return [_note(name, uid, "TaintClusterSucceed", f"Taint cluster({name}) succeed: {'; '.join(said)}.", component)]


def not_tainted(name: str, uid: str, why: str) -> Note:
    """The Event about taints that could not be written."""
    message = f"Taint cluster({name}) failed: {why}"
    return _note(name, uid, "TaintClusterFailed", message, CLUSTER, warning=True)


def space(name: str, uid: str, *, created: bool, why: str = "") -> Note:
    """The Event about the execution namespace of a cluster that was created or removed, or why it was not."""
    verb = "Create" if created else "Remove"
    message = f"{verb} execution space({execution_namespace(name)}) for cluster({name})"
    if why:
        return _note(name, uid, f"{verb}ExecutionSpaceFailed", f"{message} failed: {why}", CLUSTER, warning=True)
    return _note(name, uid, f"{verb}ExecutionSpaceSucceed", f"{message} succeed.", CLUSTER)


def _note(name: str, uid: str, reason: str, message: str, component: str, *, warning: bool = False) -> Note:
    return note_about(cluster_of(name, uid), reason, message, component, warning=warning)


def _holds(taints: Sequence[Manifest], taint: Manifest) -> bool:
    return any(_identity(one) == _identity(taint) for one in taints)


def _identity(taint: Manifest) -> tuple[Any, ...]:
    return taint.get("key"), taint.get("value") or "", taint.get("effect")


def _taint(taint: Manifest) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"

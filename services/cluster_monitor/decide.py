"""Decides what the log and the control plane shall say of one member cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged, ClusterEvent, ClusterRemoved
from services._rules import constants as const
from services._rules.failover.taint_policies import apply_policies
from services._rules.patch import merge_difference
from services._rules.quantity import parse
from services.cluster_monitor.readiness import apis_condition, condition, filter_ready, find_condition, taints_for
from services.cluster_monitor.silence import Graces, silence, silent_at
from services.cluster_monitor.state import ClusterState, MonitorState

Manifest = dict[str, Any]

FINALIZER: Final = const.CLUSTER_FINALIZER
_CAPACITY_STEP = 0.05


class WriteSpec(Struct, frozen=True):
    """Set the taints of a Cluster object."""

    name: str
    resource_version: str
    taints: list[Manifest]


class WriteStatus(Struct, frozen=True):
    """Change the status of a Cluster object by a JSON merge patch."""

    name: str
    patch: Manifest


class AddFinalizer(Struct, frozen=True):
    """Take a Cluster object into care: execution namespace and finalizer."""

    name: str


class DropFinalizer(Struct, frozen=True):
    """Let a Cluster object go: its works are gone, or it cannot be asked any more."""

    name: str


Effect = WriteSpec | WriteStatus | AddFinalizer | DropFinalizer


class Verdict(Struct, frozen=True):
    """Events to append, effects on the control plane, and when to look again."""

    events: tuple[ClusterEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    wake_at: float | None = None


class Thresholds(Struct, frozen=True):
    """Seconds that a change of readiness has to last before it is published, and that an agent may be silent."""

    success: float = 30.0
    failure: float = 30.0
    graces: Graces = Graces()


DEFAULTS: Final = Thresholds()


def decide(state: MonitorState, name: str, now: float, thresholds: Thresholds = DEFAULTS) -> Verdict:
    """What shall be said of one cluster, given its object, the latest probe and the last fact."""
    cluster = state.of(name)
    manifest = cluster.manifest
    if manifest is None:
        if cluster.fact is not None and state.listed:
            return Verdict(events=(ClusterRemoved(name=name, uid=cluster.fact.uid),))
        return Verdict()
    effects: list[Effect] = []
    wake_at: float | None = None
    metadata = manifest["metadata"]
    deleting = "deletionTimestamp" in metadata
    if FINALIZER not in metadata.get("finalizers", ()) and not deleting:
        effects.append(AddFinalizer(name))
    status = manifest.get("status") or {}
    mode = manifest["spec"].get("syncMode")
    if mode == "Pull":
        status, wake_at = _heard_status(cluster, metadata, status, now, thresholds)
    elif cluster.probe is not None and mode == "Push":
        status = _status(cluster, status, thresholds)
    if status is not manifest.get("status"):
        patch = merge_difference(manifest.get("status") or {}, status)
        if patch:
            effects.append(WriteStatus(name, patch))
    ready = find_condition(status.get("conditions") or [], "Ready")
    ready_status = ready["status"] if ready else None
    spec = manifest["spec"]
    taints = taints_for(ready_status, spec.get("taints") or [], _time(now))
    if state.taint_policies and not deleting:
        judged = {**manifest, "spec": {**spec, "taints": taints}, "status": status}
        taints = apply_policies(judged, list(state.taint_policies.values()), _time(now))
    if taints != (spec.get("taints") or []):
        effects.append(WriteSpec(name, metadata.get("resourceVersion", ""), taints))
        spec = {**spec, "taints": taints}
    if deleting and FINALIZER in metadata.get("finalizers", ()) and (cluster.empty or ready_status != "True"):
        effects.append(DropFinalizer(name))
    return Verdict(events=_facts(cluster, metadata, spec, status, deleting), effects=tuple(effects), wake_at=wake_at)


def _status(cluster: ClusterState, status: Manifest, thresholds: Thresholds) -> Manifest:
    probe = cluster.probe
    assert probe is not None
    conditions = list(status.get("conditions") or [])
    published = find_condition(conditions, "Ready")
    wanted = filter_ready(
        published, probe, cluster.memory, success_seconds=thresholds.success, failure_seconds=thresholds.failure
    )
    now = _time(probe.at)
    result = dict(status)
    fresh = {"Ready": condition("Ready", wanted, published, now)}
    if probe.summary is not None and wanted.status == "True":
        result.update(probe.summary)
        apis = apis_condition(probe, len(probe.summary.get("apiEnablements") or ()))
        previous = find_condition(conditions, "CompleteAPIEnablements")
        fresh["CompleteAPIEnablements"] = condition("CompleteAPIEnablements", apis, previous, now)
    kept = [fresh.pop(entry["type"], entry) for entry in conditions]
    result["conditions"] = [*kept, *fresh.values()]
    return result


def _heard_status(
    cluster: ClusterState, metadata: Manifest, status: Manifest, now: float, thresholds: Thresholds
) -> tuple[Manifest, float | None]:
    """The status of a pull cluster: what its agent says, or that it says nothing any more."""
    conditions = status.get("conditions") or []
    published = find_condition(conditions, "Ready")
    if not cluster.heard_at:
        return status, None
    ends = silent_at(published, str(metadata.get("creationTimestamp") or ""), cluster.heard_at, thresholds.graces)
    if now < ends:
        if cluster.probe is None:
            return status, ends
        if published is not None and published.get("status") == "Unknown":
            # An agent that is back is believed at once.
            thresholds = replace(thresholds, success=0.0)
        return _status(cluster, status, thresholds), ends
    wanted = silence(published)
    if wanted is None:
        return status, None
    fresh = condition("Ready", wanted, published, _time(now))
    kept = [fresh if entry["type"] == "Ready" else entry for entry in conditions]
    return {**status, "conditions": kept if published is not None else [*kept, fresh]}, None


def _facts(
    cluster: ClusterState, metadata: Manifest, spec: Manifest, status: Manifest, deleting: bool
) -> tuple[ClusterEvent, ...]:
    fact = cluster.fact
    uid = str(metadata.get("uid", ""))
    known = msgspec.json.decode(fact.manifest) if fact is not None and fact.uid == uid else None
    view = {
        "apiVersion": const.CLUSTER_API,
        "kind": "Cluster",
        "metadata": {
            "name": cluster.name,
            "uid": uid,
            "labels": metadata.get("labels") or {},
            "creationTimestamp": metadata.get("creationTimestamp"),
        },
        "spec": spec,
        "status": _damped(status, (known or {}).get("status") or {}),
    }
    if fact is not None and known == view and fact.deleting == deleting:
        return ()
    changed = ClusterChanged(
        name=cluster.name,
        uid=uid,
        manifest=Raw(msgspec.json.encode(view)),
        generation=int(metadata.get("generation", 0)),
        deleting=deleting,
    )
    if fact is not None and fact.uid != uid:
        return (ClusterRemoved(name=cluster.name, uid=fact.uid), changed)
    return (changed,)


def _damped(status: Manifest, known: Manifest) -> Manifest:
    """The status with the known capacity figures, unless they moved by a step that decisions would notice."""
    if not known:
        return status
    result = dict(status)
    result["conditions"] = _same_conditions(status.get("conditions") or [], known.get("conditions") or [])
    summary, before = status.get("resourceSummary"), known.get("resourceSummary")
    if summary and before and not _moved(summary, before):
        result["resourceSummary"] = before
    return result


def _same_conditions(conditions: list[Manifest], known: list[Manifest]) -> list[Manifest]:
    """Conditions whose type and status are known already keep their known wording and times."""
    before = {entry["type"]: entry for entry in known}
    result = []
    for entry in conditions:
        old = before.get(entry["type"])
        unchanged = (
            old is not None and old.get("status") == entry.get("status") and old.get("reason") == entry.get("reason")
        )
        result.append(old if unchanged and old is not None else entry)
    return result


def _moved(summary: Manifest, before: Manifest) -> bool:
    if summary.get("allocatable") != before.get("allocatable"):
        return True
    if summary.get("allocatableModelings") != before.get("allocatableModelings"):
        return True
    for name, total in (summary.get("allocatable") or {}).items():
        step = parse(total).nano * _CAPACITY_STEP
        if abs(_used(summary, name) - _used(before, name)) > step:
            return True
    return False


def _used(summary: Manifest, name: str) -> int:
    parts = ("allocated", "allocating")
    return sum(parse((summary.get(part) or {}).get(name, "0")).nano for part in parts)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

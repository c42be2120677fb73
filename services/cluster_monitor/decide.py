"""Decides the facts and the Cluster object writes of one member cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged, ClusterEvent, ClusterRemoved
from schemas.events.control_plane import AbsenceReleased
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.absence import absence_guard as absence
from services._rules.decision import Decision
from services._rules.failover.cluster_taint_policies import apply_policies
from services._rules.kubernetes.event_objects import Note
from services._rules.kubernetes.patch.json_patch import merge_difference
from services._rules.kubernetes.quantity import parse
from services._rules.kubernetes.rbac.credential_bindings import NOT_BOUND, bound_namespaces, may_hold_credentials
from services.cluster_monitor import cluster_announcements as announcements
from services.cluster_monitor.heartbeat_timeout import Graces, silence, silent_at
from services.cluster_monitor.member_identity import (
    CONDITION,
    Identity,
    condition_of,
    identity_of,
    note_of,
    note_of_all,
    scope_of,
    strange,
)
from services.cluster_monitor.member_identity import held as held_of
from services.cluster_monitor.readiness import (
    apis_condition,
    condition,
    filter_ready,
    find_condition,
    remembered,
    rfc3339,
    taints_for,
    timed,
    with_answers,
    with_condition,
    with_expiry,
)
from services.cluster_monitor.remedies import notes_of_remedies, with_actions
from services.cluster_monitor.state import KIND, ClusterState, MonitorState, ReadyMemory

FINALIZER: Final = const.CLUSTER_FINALIZER
UNUSED_SECONDS: Final = 60.0
"""How long services may still read Secrets in a namespace that no Cluster names any more."""
AGAIN_SECONDS: Final = 30.0
"""Until bindings are compared again that could not be written, or although which a Secret cannot be used."""
_CAPACITY_STEP = 0.05


class WriteSpec(Struct, frozen=True):
    """Set the taints of a Cluster object."""

    name: str
    resource_version: str
    taints: list[Manifest]
    notes: tuple[Note, ...] = ()
    """What to tell once it is written."""


class WriteStatus(Struct, frozen=True):
    """Change the status of a Cluster object by a JSON merge patch."""

    name: str
    patch: Manifest
    notes: tuple[Note, ...] = ()
    """What to tell once it is written."""


class AddFinalizer(Struct, frozen=True):
    """Take a Cluster object into care: execution namespace and finalizer."""

    name: str


class DropFinalizer(Struct, frozen=True):
    """Let a Cluster object go: its works are gone, or it cannot be asked any more."""

    name: str


class WriteIdentity(Struct, frozen=True):
    """Write the member's identity to its Cluster object, after an operator accepted another one."""

    name: str
    resource_version: str
    identity: str


class KeepBindings(Struct, frozen=True):
    """Let the services read the Secrets of these namespaces, and of no others that were given to them."""

    namespaces: frozenset[str]


class Announce(Struct, frozen=True):
    """Write a Kubernetes Event."""

    note: Note


Written = WriteIdentity | WriteSpec | WriteStatus | AddFinalizer | DropFinalizer


Effect = Announce | KeepBindings | Written


class ClusterDecision(Decision, frozen=True):
    """Events to append and effects on the control plane.

    What the state has to take in: `memory` of the probes (None: as before), that the reason to hold what is missing
    ends (`settled`), and the namespaces with bindings that are of no use since a time (None: as before).
    """

    memory: ReadyMemory | None = None
    settled: bool = False
    unused: Mapping[str, float] | None = None


class _Judged(Struct, frozen=True):
    """A status, what was remembered of probes on the way to it (None: as before), and when to decide again."""

    status: Manifest
    memory: ReadyMemory | None = None
    wake_at: float | None = None


class Thresholds(Struct, frozen=True):
    """Seconds that a change of readiness has to last before it is published, and that an agent may be silent."""

    success: float = 30.0
    failure: float = 30.0
    graces: Graces = Graces()


DEFAULTS: Final = Thresholds()


def decide(state: MonitorState, name: str, now: float, thresholds: Thresholds = DEFAULTS) -> ClusterDecision:
    """The facts and writes due for one cluster, given its object, the latest probe and the last fact."""
    cluster = state.clusters.get(name) or ClusterState(name=name)
    manifest = cluster.manifest
    if manifest is None:
        if cluster.fact is None or not state.listed or state.guard.holds(KIND, name):
            return ClusterDecision()
        why = absence.why_gone(state.guard, name, cluster.told)
        ended = (AbsenceReleased(scope=scope_of(name), reason=why),) if cluster.held is not None else ()
        return ClusterDecision(events=(ClusterRemoved(name=name, uid=cluster.fact.uid, reason=why), *ended))
    effects: list[Effect] = []
    metadata = manifest["metadata"]
    deleting = "deletionTimestamp" in metadata
    if not deleting and not _served(state, manifest["spec"]):
        # The other services hear of it, and it is probed, once they may read its Secrets.
        return ClusterDecision()
    if FINALIZER not in metadata.get("finalizers", ()) and not deleting:
        effects.append(AddFinalizer(name))
    judged = _Judged(manifest.get("status") or {})
    mode = manifest["spec"].get("syncMode")
    uid = str(metadata.get("uid", ""))
    identity = identity_of(cluster, uid, manifest["spec"])
    if mode == "Pull":
        judged = _heard_status(cluster, metadata, judged.status, now, thresholds, identity)
    elif mode == "Push":
        judged = _probed_status(_explained(state, cluster), judged.status, now, thresholds, identity)
    status = with_actions(state, manifest, judged.status)
    if status is not manifest.get("status"):
        patch = merge_difference(manifest.get("status") or {}, status)
        if patch:
            published = find_condition((manifest.get("status") or {}).get("conditions") or [], "Ready")
            fresh = find_condition(status.get("conditions") or [], "Ready")
            effects.append(WriteStatus(name, patch, announcements.readiness(name, uid, published, fresh)))
    ready = find_condition(status.get("conditions") or [], "Ready")
    ready_status = ready.get("status") if ready else None
    spec = manifest["spec"]
    if cluster.adopted and spec.get("id") and spec["id"] != cluster.adopted:
        effects.append(WriteIdentity(name, metadata.get("resourceVersion", ""), cluster.adopted))
    due = held_of(cluster, identity, now)
    effects.extend(Announce(note_of(event, name, uid)) for event in due)
    known = spec.get("taints") or []
    taints = taints_for(ready_status, known, rfc3339(now))
    notes = announcements.taints(name, uid, known, taints, announcements.CLUSTER)
    if state.taint_policies and not deleting:
        present = {**manifest, "spec": {**spec, "taints": taints}, "status": status}
        own, taints = taints, apply_policies(present, list(state.taint_policies.values()), rfc3339(now))
        notes += announcements.taints(name, uid, own, taints, announcements.TAINT_POLICY)
    if taints != known and named(taints) != cluster.refused:
        effects.append(WriteSpec(name, metadata.get("resourceVersion", ""), taints, tuple(notes)))
        spec = {**spec, "taints": taints}
    if deleting and FINALIZER in metadata.get("finalizers", ()) and (cluster.empty or ready_status != "True"):
        effects.append(DropFinalizer(name))
    facts = _facts(cluster, metadata, spec, status, deleting, identity, now)
    return ClusterDecision((*facts, *due), judged.wake_at, tuple(effects), memory=judged.memory)


def named(taints: list[Manifest]) -> frozenset[tuple[str, str]]:
    """Key and effect of every taint."""
    return frozenset((str(taint.get("key")), str(taint.get("effect"))) for taint in taints)


def decide_all(state: MonitorState, now: float) -> ClusterDecision:
    """The facts due for Cluster objects that are missing."""
    kinds = {KIND} if any(cluster.fact is not None for cluster in state.clusters.values()) else set()
    due = absence.decide(state.guard, kinds, now)
    # Nothing is written to a control plane that is not ours.
    notes = [Announce(note_of_all(event, state.guard.uid)) for event in due] if state.guard.trusted else []
    if state.guard.trusted:
        notes.extend(Announce(note) for note in notes_of_remedies(state))
    settled = absence.settles(state.guard, kinds)
    if not state.listed or not state.guard.trusted:
        return ClusterDecision(due, effects=tuple(notes), settled=settled)
    kept = bindings_due(state, now)
    return ClusterDecision(due, kept.wake_at, (*notes, *kept.effects), settled=settled, unused=kept.unused)


def bindings_due(state: MonitorState, now: float) -> ClusterDecision:
    """The bindings by which services read the Secrets that Clusters name, once they are others than before.

    Those of a namespace that no Cluster names any more stay for a moment: services may still be about to read there.
    """
    wanted = frozenset[str]().union(*(bound_namespaces(spec) for spec in _specs(state)))
    kept = state.bindings
    if kept is None:
        return ClusterDecision(effects=(KeepBindings(wanted),))
    unused = {name: state.unused.get(name, now) for name in kept.namespaces - wanted}
    lasting = frozenset(name for name, since in unused.items() if now < since + UNUSED_SECONDS)
    times = [unused[name] + UNUSED_SECONDS for name in lasting]
    if kept.refused.keys() & wanted or any(map(_unread, state.clusters.values())):
        times.append(kept.at + AGAIN_SECONDS)
    wake_at = min(times, default=None)
    if wanted | lasting == kept.namespaces and (wake_at is None or now < wake_at):
        return ClusterDecision(wake_at=wake_at, unused=unused)
    # What comes of it is the reason for the next decision.
    return ClusterDecision(effects=(KeepBindings(wanted | lasting),), unused=unused)


def _specs(state: MonitorState) -> Iterator[Manifest]:
    """Specs of all clusters, of those on record whose objects are missing as well: these may come back."""
    for cluster in state.clusters.values():
        if cluster.manifest is not None:
            yield cluster.manifest["spec"]
        elif cluster.fact is not None:
            yield msgspec.json.decode(cluster.fact.manifest).get("spec") or {}


def _unread(cluster: ClusterState) -> bool:
    """Whether a cluster that needs a binding has no credentials: the binding may have gone with its namespace."""
    failed = cluster.manifest is not None and cluster.probe is not None and cluster.probe.error
    return bool(failed and cluster.manifest and bound_namespaces(cluster.manifest["spec"]))


def _served(state: MonitorState, spec: Manifest) -> bool:
    """Whether it was tried already to let services read the Secrets that a Cluster names."""
    wanted = bound_namespaces(spec)
    return not wanted or (state.bindings is not None and wanted <= state.bindings.namespaces)


def _explained(state: MonitorState, cluster: ClusterState) -> ClusterState:
    """A cluster whose probe says why services may not read its Secret, where it has no credentials for that reason."""
    probe = cluster.probe
    reference = ((cluster.manifest or {}).get("spec") or {}).get("secretRef") or {}
    namespace = str(reference.get("namespace") or "")
    if probe is None or not probe.error or namespace in ("", const.NAMESPACE_CLUSTER):
        return cluster
    refused = state.bindings.refused if state.bindings is not None else {}
    why = refused.get(namespace, "") if may_hold_credentials(namespace) else NOT_BOUND
    return replace(cluster, probe=replace(probe, error=f"{probe.error}; {why}")) if why else cluster


def _status(cluster: ClusterState, status: Manifest, thresholds: Thresholds, identity: Identity) -> _Judged:
    probe = cluster.probe
    assert probe is not None
    conditions = list(status.get("conditions") or [])
    published = find_condition(conditions, "Ready")
    # Another cluster at its address is no transient failure: it is recorded at once.
    wanted, memory = strange(identity), cluster.memory
    if wanted is None:
        memory = remembered(memory, probe)
        wanted = filter_ready(
            published, probe, memory, success_seconds=thresholds.success, failure_seconds=thresholds.failure
        )
    now = rfc3339(probe.at)
    result = dict(status)
    fresh = {"Ready": condition("Ready", wanted, published, now)}
    if identity.known and (identity.stranger or find_condition(conditions, CONDITION) is not None):
        # Said from the first time on that it is not so.
        fresh[CONDITION] = condition(CONDITION, condition_of(identity), find_condition(conditions, CONDITION), now)
    if probe.summary is not None and wanted.status == "True":
        result.update(probe.summary)
        apis = apis_condition(probe, len(probe.summary.get("apiEnablements") or ()))
        previous = find_condition(conditions, "CompleteAPIEnablements")
        fresh["CompleteAPIEnablements"] = condition("CompleteAPIEnablements", apis, previous, now)
    kept = [fresh.pop(entry.get("type") or "", entry) for entry in conditions]
    answers = with_answers([*kept, *fresh.values()], probe.answers, probe.at)
    result["conditions"] = with_expiry(answers, probe.expiry, probe.at)
    return _Judged(result, memory if memory != cluster.memory else None)


def _probed_status(
    cluster: ClusterState, status: Manifest, now: float, thresholds: Thresholds, identity: Identity
) -> _Judged:
    """The status of a push cluster: the result of the latest probe, or that no probes end any more."""
    if cluster.unprobed:
        return _Judged(_silent_status(status, now))
    return _Judged(status) if cluster.probe is None else _status(cluster, status, thresholds, identity)


def _silent_status(status: Manifest, now: float) -> Manifest:
    """A status whose Ready condition is Unknown."""
    conditions = status.get("conditions") or []
    published = find_condition(conditions, "Ready")
    wanted = silence(published)
    if wanted is None:
        return status
    return {**status, "conditions": with_condition(conditions, condition("Ready", wanted, published, rfc3339(now)))}


def _heard_status(
    cluster: ClusterState,
    metadata: Manifest,
    status: Manifest,
    now: float,
    thresholds: Thresholds,
    identity: Identity,
) -> _Judged:
    """The status of a pull cluster: the latest sample of its agent, or that its heartbeats ended."""
    conditions = status.get("conditions") or []
    published = find_condition(conditions, "Ready")
    if not cluster.heard_at:
        return _Judged(status)
    ends = silent_at(published, str(metadata.get("creationTimestamp") or ""), cluster.heard_at, thresholds.graces)
    if now < ends:
        if cluster.probe is None:
            return _Judged(status, wake_at=ends)
        if published is not None and published.get("status") == "Unknown":
            # An agent that is back is believed at once.
            thresholds = replace(thresholds, success=0.0)
        return replace(_status(cluster, status, thresholds, identity), wake_at=ends)
    return _Judged(_silent_status(status, now))


def _facts(
    cluster: ClusterState,
    metadata: Manifest,
    spec: Manifest,
    status: Manifest,
    deleting: bool,
    identity: Identity,
    now: float,
) -> tuple[ClusterEvent, ...]:
    fact = cluster.fact
    uid = str(metadata.get("uid", ""))
    known = msgspec.json.decode(fact.manifest) if fact is not None and fact.uid == uid else None
    if spec.get("taints"):
        spec = {**spec, "taints": timed(spec["taints"], ((known or {}).get("spec") or {}).get("taints") or (), now)}
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
    same = fact is not None and (fact.deleting, fact.identity, fact.stranger) == (
        deleting,
        identity.known,
        identity.stranger,
    )
    if same and known == view:
        return ()
    changed = ClusterChanged(
        name=cluster.name,
        uid=uid,
        manifest=Raw(msgspec.json.encode(view)),
        generation=int(metadata.get("generation", 0)),
        deleting=deleting,
        identity=identity.known,
        stranger=identity.stranger,
        shaped_at=fact.shaped_at if fact is not None and _same_shape(known, view) else now,
    )
    if fact is not None and fact.uid != uid:
        return (
            ClusterRemoved(name=cluster.name, uid=fact.uid, reason="replaced by a cluster of the same name"),
            changed,
        )
    return (changed,)


def _same_shape(known: Manifest | None, view: Manifest) -> bool:
    """Whether labels and spec are those that are on record: all that placements follow, but for capacity and APIs."""
    if known is None or "metadata" not in known:
        return False
    return bool(known["metadata"].get("labels") == view["metadata"]["labels"] and known.get("spec") == view["spec"])


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
    before = {entry.get("type"): entry for entry in known}
    result = []
    for entry in conditions:
        old = before.get(entry.get("type"))
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

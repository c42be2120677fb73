"""Decides whether the member behind a name is the one that joined, and the condition and Events when it is not."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.events.control_plane import (
    AbsenceConfirmed,
    AbsenceEvent,
    AbsenceHeld,
    AbsenceReleased,
    ControlPlaneIdentified,
)
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import BACK, CONFIRMED, IDENTITY_CHANGED
from services._rules.constants import CLUSTER_API
from services._rules.kubernetes.event_objects import Note
from services.cluster_monitor.readiness import Observed
from services.cluster_monitor.state import ALL, ClusterState, MonitorState

AbsenceFact = ControlPlaneIdentified | AbsenceEvent | AbsenceConfirmed

CONDITION: Final = "IdentityConfirmed"
_PREFIX: Final = "member/"
COMPONENT: Final = "cluster-status-controller"
LONGEST: Final = 1024


class Identity(Struct, frozen=True):
    """The identity of a member (`known`, empty: unknown), and of another one that answers in its place (`stranger`)."""

    known: str = ""
    stranger: str = ""


def scope_of(name: str) -> str:
    """The scope in which facts about a member's identity stand."""
    return f"{_PREFIX}{name}"


def name_of(scope: str) -> str:
    """The member of a scope, empty for other scopes."""
    return scope.removeprefix(_PREFIX) if scope.startswith(_PREFIX) else ""


def identity_of(cluster: ClusterState, uid: str, spec: Manifest) -> Identity:
    """The member's identity: the confirmed one, else that of its Cluster object, else the one seen first."""
    fact = cluster.fact if cluster.fact is not None and cluster.fact.uid == uid else None
    seen = cluster.probe.identity if cluster.probe is not None else ""
    known = cluster.adopted or str(spec.get("id") or "") or (fact.identity if fact is not None else "") or seen
    if seen:
        return Identity(known, seen if seen != known else "")
    before = fact.stranger if fact is not None else ""
    return Identity(known, before if before != known else "")


def is_another(cluster: ClusterState) -> bool:
    """Whether another one answers in the place of a member."""
    manifest = cluster.manifest or {}
    uid = str((manifest.get("metadata") or {}).get("uid", ""))
    return bool(identity_of(cluster, uid, manifest.get("spec") or {}).stranger)


def confirm(cluster: ClusterState, event: AbsenceConfirmed) -> bool:
    """Take in that an operator accepts the member that answers now; whether its identity is the one held."""
    if cluster.held is None or event.held_at != cluster.held_at or not event.identity:
        return False
    cluster.adopted = event.identity
    return True


def fold_absence(state: MonitorState, seq: int, subject: str, event: AbsenceFact) -> list[str]:
    """Take in a fact about the control plane, or about what is held; the clusters to decide, and what concerns all."""
    state.subjects[subject] = seq
    name = "" if isinstance(event, ControlPlaneIdentified) else name_of(event.scope)
    if not name:
        confirmed = absence.fold(state.guard, seq, event)
        for gone in confirmed:
            state.of(gone).manifest = None
        return [*confirmed, ALL]
    cluster = state.of(name)
    match event:
        case AbsenceHeld():
            cluster.held, cluster.held_at = event, seq
        case AbsenceReleased():
            cluster.held = None
        case AbsenceConfirmed():
            confirm(cluster, event)
        case _:
            pass
    return [name]


def strange(identity: Identity) -> Observed | None:
    """The Ready condition of a member in whose place another one answers; None when it answers itself."""
    if not identity.stranger:
        return None
    return Observed("False", "ClusterIdentityChanged", _message(identity))


def condition_of(identity: Identity) -> Observed:
    """Whether the member has its known identity."""
    if identity.stranger:
        return Observed("False", "IdentityChanged", _message(identity))
    return Observed("True", "IdentityConfirmed", f"the uid of its namespace kube-system is {identity.known}")


def held(cluster: ClusterState, identity: Identity, now: float) -> tuple[AbsenceEvent, ...]:
    """The fact that is due about another member that answers in the place of one."""
    scope = scope_of(cluster.name)
    if not identity.stranger:
        if cluster.held is None:
            return ()
        adopted = identity.known == cluster.held.identity
        return (AbsenceReleased(scope=scope, reason=CONFIRMED if adopted else BACK),)
    if cluster.held is not None and (cluster.held.identity, cluster.held.expected) == (
        identity.stranger,
        identity.known,
    ):
        return ()
    return (
        AbsenceHeld(
            scope=scope,
            reason=IDENTITY_CHANGED,
            message=_message(identity),
            since=cluster.held.since if cluster.held is not None else now,
            identity=identity.stranger,
            expected=identity.known,
        ),
    )


def _message(identity: Identity) -> str:
    return (
        f"another cluster answers at the address: its identity is {identity.stranger}, that of the member is "
        f"{identity.known}. Nothing is applied, deleted or reported there until the member answers again, it is joined "
        "again, or `fleetlog confirm-absence` accepts the other one"
    )


def note_of(event: AbsenceEvent, name: str, uid: str) -> Note:
    """The Event about one member in whose place another cluster answers, or no longer does."""
    key = ObjectKey("cluster.karmada.io", "clusters", "", name)
    if isinstance(event, AbsenceHeld):
        return Note(
            key, uid, CLUSTER_API, "Cluster", "ClusterIdentityChanged", event.message[:LONGEST], COMPONENT, True
        )
    message = f"the member is served again: {event.reason}"
    return Note(key, uid, CLUSTER_API, "Cluster", "ClusterIdentityConfirmed", message, COMPONENT)


def note_of_all(event: AbsenceEvent, uid: str) -> Note:
    """The Event about Cluster objects that are missing; it concerns the namespace that identifies the control plane."""
    key = ObjectKey("", "namespaces", "", "kube-system")
    if isinstance(event, AbsenceHeld):
        return Note(key, uid, "v1", "Namespace", "ClusterRemovalsHeld", event.message[:LONGEST], COMPONENT, True)
    message = f"Cluster objects that are missing count as removed again: {event.reason}"
    return Note(key, uid, "v1", "Namespace", "ClusterRemovalsReleased", message, COMPONENT)

"""Texts of the Kubernetes Events about absences that are held."""

from __future__ import annotations

from typing import Final

from schemas.events.control_plane import AbsenceEvent, AbsenceHeld
from schemas.keys import ObjectKey
from services._rules.constants import CLUSTER_API
from services._rules.kubernetes.event_objects import Note

COMPONENT: Final = "cluster-status-controller"
LONGEST: Final = 1024


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

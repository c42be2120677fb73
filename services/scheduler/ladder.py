"""Decides whether a binding has to be scheduled now, and by which rung of the ladder (reference 02 §1.4–1.7)."""

from __future__ import annotations

from typing import Any, Final

from services._rules.division_usage import replicas_changed, reschedule_requested

Manifest = dict[str, Any]

RECONCILE: Final = "ReconcileSchedule"
SCALE: Final = "ScaleSchedule"
_DECISIVE: Final = ("clusterAffinity", "clusterTolerations", "spreadConstraints", "replicaScheduling")


def placement_changed(wanted: Manifest | None, applied: Manifest | None, observed_affinity: str) -> bool:
    """Whether the placement asked for differs, in a way that counts, from the one last decided upon (None: never)."""
    if applied is None:
        return True
    wanted = _plain(wanted or {})
    applied = _plain(applied)
    if wanted == applied:
        return False
    if any(wanted.get(name) != applied.get(name) for name in _DECISIVE):
        return True
    if not observed_affinity:
        return True
    return _term(wanted, observed_affinity) != _term(applied, observed_affinity) or not _term(wanted, observed_affinity)


def _term(placement: Manifest, name: str) -> Manifest | None:
    terms = placement.get("clusterAffinities") or ()
    return next((term for term in terms if term.get("affinityName") == name), None)


def _plain(value: Any) -> Any:
    """A manifest without its empty parts: absent and empty mean the same."""
    if isinstance(value, dict):
        kept = {name: _plain(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part not in (None, [], {}, "")}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def trigger(
    spec: Manifest,
    *,
    workload: bool,
    applied: Manifest | None,
    observed_affinity: str,
    last_scheduled: str | None,
    counts: list[int],
    leaving: bool,
) -> str:
    """The first rung that holds, or an empty text when nothing has to be done.

    `applied` is the placement last decided upon, `counts` the replicas per present target, `leaving` whether a target
    cluster is going away or an eviction asks for it.
    """
    placement = spec.get("placement")
    if placement_changed(placement, applied, observed_affinity):
        return RECONCILE
    scheduling = (placement or {}).get("replicaScheduling")
    if replicas_changed(spec.get("replicas") or 0, scheduling, counts):
        return SCALE
    if reschedule_requested(spec.get("rescheduleTriggeredAt"), last_scheduled):
        return RECONCILE
    if not workload or scheduling is None or scheduling.get("replicaSchedulingType") == "Duplicated":
        return RECONCILE
    return RECONCILE if leaving else ""

"""Folds the statuses of members into that of an apps/v1 workload template (reference 03 §4.7)."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import (
    InterpretError,
    describe,
    object_at,
    whole_number,
)
from services._rules.interpreter.common.shape_checks import check_object, check_status

# One member's report: clusterName, status, applied, appliedMessage, health.
Item: TypeAlias = dict[str, Any]
Items: TypeAlias = Sequence[Item] | None

# Counters that are summed; the second set is written even when zero.
_SUMS: Final[dict[str, tuple[tuple[str, ...], frozenset[str]]]] = {
    "Deployment": (
        ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas"),
        frozenset(),
    ),
    "ReplicaSet": (("replicas", "readyReplicas", "availableReplicas"), frozenset({"replicas"})),
    "DaemonSet": (
        (
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberAvailable",
            "numberMisscheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberUnavailable",
        ),
        frozenset({"currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"}),
    ),
    "StatefulSet": (
        ("availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"),
        frozenset({"replicas", "availableReplicas"}),
    ),
}


def reports(kind: str, items: Items) -> Iterator[tuple[str, Manifest]]:
    """Cluster and status of every item that has one; raises InterpretError where a status has not the kind's shape."""
    for item in items or ():
        status = item.get("status")
        if status is None:
            continue
        cluster = str(item.get("clusterName") or "")
        field = f"aggregatedStatus[{cluster}].status"
        if type(status) is not dict:
            raise InterpretError(f"is {describe(status)}, expected an object", field)
        check_status(kind, status, field)
        yield cluster, status


def with_status(obj: Manifest, status: Manifest) -> Manifest:
    """The object with another status, or the same object where nothing changes; zero and absent are the same."""
    old = obj.get("status")
    if old == status or _significant(old or {}) == _significant(status):
        return obj
    return {**obj, "status": status}


def _significant(status: Any) -> Any:
    if isinstance(status, dict):
        members = {name: _significant(value) for name, value in status.items()}
        return {name: value for name, value in members.items() if value}
    if isinstance(status, list):
        return [_significant(entry) for entry in status]
    return status


def aggregate_workload(obj: Manifest, items: Items) -> Manifest:
    """Sums the counters of Deployment, ReplicaSet, DaemonSet or StatefulSet.

    observedGeneration follows the template's generation once every member has observed it.
    """
    kind = str(obj.get("kind"))
    check_object(kind, obj)
    names, always = _SUMS[kind]
    generation = whole_number(object_at(obj, "metadata").get("generation"), "metadata.generation")
    sums = dict.fromkeys(names, 0)
    current = 0
    for _, member in reports(kind, items):
        for name in names:
            value = member.get(name)
            if value:
                sums[name] += int(value)
        observed = member.get("generation") or 0
        # Karmada compares a StatefulSet's template generation with the member's own; its users see that.
        needed = observed if kind == "StatefulSet" else generation
        if (member.get("observedGeneration") or 0) >= observed and (
            member.get("resourceTemplateGeneration") or 0
        ) >= needed:
            current += 1
    old = object_at(obj, "status")
    reached = generation if current == len(items or ()) else (old.get("observedGeneration") or 0)
    if reached == (old.get("observedGeneration") or 0) and all(sums[name] == (old.get(name) or 0) for name in names):
        return obj
    status = {name: value for name, value in old.items() if name not in sums and name != "observedGeneration"}
    status.update((name, number) for name, number in sums.items() if number or name in always)
    if reached:
        status["observedGeneration"] = reached
    return {**obj, "status": status}

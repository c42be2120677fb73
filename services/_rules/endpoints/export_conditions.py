"""What the status of a ServiceExport says: whether clusters offer the Service, and whether they agree on its ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from schemas.endpoints import PortOfSlice, ServiceSlice
from schemas.manifest import Manifest
from services._rules.endpoints.derived_services import ServiceImport

VALID: Final = "Valid"
CONFLICT: Final = "Conflict"
_LISTED: Final = 5
_LONGEST: Final = 1024


class ClusterExport(Struct, frozen=True):
    """What one cluster offers of a Service; `problem` says what is wrong with it, empty for nothing."""

    slices: tuple[ServiceSlice, ...] = ()
    problem: str = ""
    counts: bool = True
    """Whether other clusters get its endpoints: not those of a cluster that has been silent for too long."""


class Condition(Struct, frozen=True):
    """One condition, without the moment at which it turned."""

    type: str
    status: str
    reason: str
    message: str


def export_conditions(clusters: Mapping[str, ClusterExport]) -> tuple[Condition, Condition]:
    """Both conditions of a ServiceExport by what its clusters offer."""
    return _valid(clusters), _conflict(clusters)


def _valid(clusters: Mapping[str, ClusterExport]) -> Condition:
    offering = sorted(name for name, found in clusters.items() if found.slices and found.counts)
    empty = sorted(name for name, found in clusters.items() if not found.slices and not found.problem)
    words = [f"{_several(offering)}: endpoints are offered"] if offering else []
    if empty:
        words.append(f"{_several(empty)}: no EndpointSlice of the Service; is it there, with a selector?")
    words += [f"{name}: {found.problem}" for name, found in sorted(clusters.items()) if found.problem][:_LISTED]
    message = "; ".join(words)[:_LONGEST]
    if offering:
        return Condition(VALID, "True", "EndpointsCollected", message)
    if not clusters:
        return Condition(VALID, "Unknown", "NotReported", "no cluster has reported on it; is it propagated?")
    return Condition(VALID, "False", "NoEndpoints", message)


def _conflict(clusters: Mapping[str, ClusterExport]) -> Condition:
    counting = {name: found for name, found in sorted(clusters.items()) if found.counts}
    ports = {name: ports_of(found.slices) for name, found in counting.items() if _telling(found.slices)}
    if len(set(ports.values())) <= 1:
        return Condition(CONFLICT, "False", "NoConflicts", "all clusters offer the same ports")
    shown = [f"{name} has {_several(sorted(found)) or 'none'}" for name, found in ports.items()]
    return Condition(CONFLICT, "True", "PortConflict", f"the clusters offer other ports: {'; '.join(shown)}"[:_LONGEST])


def _telling(slices: Iterable[ServiceSlice]) -> bool:
    """Whether the ports can be known: where there are no pods, a slice without ports says so."""
    return any(item.endpoints or item.ports for item in slices)


def ports_of(slices: Iterable[ServiceSlice]) -> frozenset[str]:
    """Ports by name and protocol, by which Services find those of their slices; numbers may differ by cluster."""
    return frozenset(_label(port) for item in slices for port in item.ports)


def _label(port: PortOfSlice) -> str:
    return f"{port.name or '(unnamed)'}/{port.protocol}"


def import_problems(given: ServiceImport, clusters: Mapping[str, ClusterExport]) -> list[tuple[str, str]]:
    """Reasons and messages of the Events about an import that reaches nothing, or not all that it names."""
    if given.type != "ClusterSetIP":
        return [("UnsupportedType", f"type {given.type} is not acted on; only ClusterSetIP makes a Service")]
    counting = {name: found for name, found in clusters.items() if found.slices and found.counts}
    if not counting:
        return [("NoExport", f"no cluster exports {given.name}: propagate a ServiceExport of this name")]
    if not any(_telling(found.slices) for found in counting.values()):
        # Which ports its pods will have is not known.
        return []
    offered = {label for found in counting.values() for label in ports_of(found.slices)}
    lost = [port.label for port in given.ports if f"{port.name or '(unnamed)'}/{port.protocol}" not in offered]
    if lost:
        return [("NoSuchPort", f"no cluster exports {_several(lost)}; exported are {_several(sorted(offered))}")]
    return []


def merged(present: Sequence[Any], wanted: Iterable[Condition], generation: int, now: float) -> list[Manifest] | None:
    """Conditions as the status has to show them, others left as they are; None where it does already."""
    known = {str(item.get("type")): item for item in present if isinstance(item, dict)}
    changed, result = False, dict(known)
    for item in wanted:
        before = known.get(item.type, {})
        fields = {"type": item.type, "status": item.status, "reason": item.reason, "message": item.message}
        same_status = before.get("status") == item.status
        if same_status and all(before.get(name) == value for name, value in fields.items()):
            continue
        changed = True
        since = before.get("lastTransitionTime") if same_status else None
        moment = since or datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        result[item.type] = {**fields, "lastTransitionTime": moment, "observedGeneration": generation}
    return list(result.values()) if changed else None


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"

"""Which actions Remedy objects ask for in a cluster (docs/sources.md#remedies)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

OPERATORS: Final = ("Equal", "NotEqual")
"""What a condition may be compared with; any other never matches."""


def actions(cluster: Mapping[str, Any], remedies: Sequence[Mapping[str, Any]]) -> list[str]:
    """The actions of all remedies that match the cluster, sorted, each once."""
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in (cluster.get("status") or {}).get("conditions") or ()
    }
    name = (cluster.get("metadata") or {}).get("name")
    found: set[str] = set()
    for remedy in remedies:
        spec = remedy.get("spec") or {}
        affinity = spec.get("clusterAffinity")
        if affinity is not None and name not in (affinity.get("clusterNames") or ()):
            continue
        matches = spec.get("decisionMatches")
        # No list at all asks for the actions always; an empty one never does.
        if matches is None or any(_matches(entry.get("clusterConditionMatch"), conditions) for entry in matches):
            found.update(spec.get("actions") or ())
    return sorted(found)


def _matches(wanted: Mapping[str, Any] | None, conditions: Mapping[Any, Any]) -> bool:
    """Whether one entry holds; a condition that the cluster does not have never matches."""
    if wanted is None or wanted.get("conditionType") not in conditions:
        return False
    equal: bool = conditions[wanted.get("conditionType")] == wanted.get("conditionStatus")
    match wanted.get("operator"):
        case "Equal":
            return equal
        case "NotEqual":
            return not equal
        case _:
            return False

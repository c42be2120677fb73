"""What Remedies ask of clusters, and what is wrong with those that ask in vain (docs/sources.md#remedies)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.failover.remedy_actions import OPERATORS, actions
from services._rules.kubernetes.event_objects import Note
from services.cluster_monitor.member_identity import COMPONENT, LONGEST
from services.cluster_monitor.state import MonitorState

ACTIONS: Final = "remedyActions"
_API: Final = "remedy.karmada.io/v1alpha1"


class _Match(Struct, rename="camel"):
    condition_type: str
    condition_status: str
    operator: str


class _Decision(Struct, rename="camel"):
    cluster_condition_match: _Match | None = None


class _Affinity(Struct, rename="camel"):
    cluster_names: list[str] | None = None


class _Spec(Struct, rename="camel"):
    cluster_affinity: _Affinity | None = None
    decision_matches: list[_Decision] | None = None
    actions: list[str] | None = None


class _Remedy(Struct):
    spec: _Spec


def with_actions(state: MonitorState, manifest: Manifest, status: Manifest) -> Manifest:
    """A cluster's status with the actions of its Remedies; unchanged before these are known, and while it leaves.

    The creation of a Cluster alone triggers nothing: one that never reported is left to Remedies that came after it.
    """
    if not state.remedies_listed or "deletionTimestamp" in manifest["metadata"]:
        return status
    remedies = [remedy for remedy in state.remedies.values() if not _unreadable(remedy)]
    if not status.get("conditions") and ACTIONS not in status:
        created = _created(manifest)
        remedies = [remedy for remedy in remedies if _created(remedy) > created]
    wanted = actions({**manifest, "status": status}, remedies)
    if wanted == (status.get(ACTIONS) or []):
        return status
    kept = {name: value for name, value in status.items() if name != ACTIONS}
    return {**kept, ACTIONS: wanted} if wanted else kept


def notes_of_remedies(state: MonitorState) -> list[Note]:
    """The Events about Remedies, or entries of them, that never match."""
    return [
        Note(
            ObjectKey("remedy.karmada.io", "remedies", "", name),
            str(remedy["metadata"].get("uid", "")),
            _API,
            "Remedy",
            "InvalidRemedy",
            f"{problem}; correct it, nothing else is concerned"[:LONGEST],
            COMPONENT,
            True,
        )
        for name, remedy in sorted(state.remedies.items())
        for problem in _problems(remedy)
    ]


def _created(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("creationTimestamp") or "")


def _unreadable(remedy: Manifest) -> str:
    """What of a Remedy has not the form of its kind; empty where all has."""
    try:
        msgspec.convert(remedy, _Remedy)
    except msgspec.ValidationError as error:
        return f"the Remedy is not acted on: {error}"
    return ""


def _problems(remedy: Manifest) -> Iterator[str]:
    if why := _unreadable(remedy):
        yield why
        return
    for index, entry in enumerate(remedy["spec"].get("decisionMatches") or ()):
        wanted = entry.get("clusterConditionMatch")
        if wanted is not None and wanted["operator"] not in OPERATORS:
            place = f"spec.decisionMatches[{index}].clusterConditionMatch.operator"
            yield f"{place} {wanted['operator']!r} never matches: it is one of {', '.join(OPERATORS)}"

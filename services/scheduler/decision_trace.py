"""Turns the input of a decision into its explanation, bounded in bytes; pure, and called for changed decisions only.

A decision hands over references to its input (all immutable), so nothing is computed twice unless it is requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.events.estimate import ClusterEstimate
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.explained import (
    MAX_BYTES,
    ExplainedCluster,
    ExplainedRefusal,
    ExplainedTerm,
    PlacementExplained,
)
from schemas.keys import ObjectKey
from services._rules.scheduling.decision_explanation import Explanation
from services._rules.scheduling.decision_explanation import explain as explain_run
from services._rules.scheduling.division.weights import ties_descend
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.schedule import GroupAttempt
from services._rules.scheduling.scheduling_views import MAX_REPLICAS, BindingView, Peers, SchedulingOptions, Status

_TEXT: Final = 240
# Clusters by name, names per reason, reasons, regions and terms: the first that fit into the bound count.
_LIMITS: Final = ((64, 24), (32, 12), (16, 6), (8, 3), (4, 1), (2, 0))
_encode: Final = msgspec.json.Encoder().encode


class Considered(Struct, frozen=True, eq=False):
    """What one decision read, and how its walk through the affinity groups ended."""

    clusters: ClusterIndex
    view: BindingView
    status: Status
    estimates: tuple[ClusterEstimate, ...]
    options: SchedulingOptions
    attempt: GroupAttempt
    trigger: str = ""
    peers: Peers | None = None


def explained(event: PlacementDecided | PlacementFailed, considered: Considered) -> PlacementExplained:
    """The explanation of a placement, at most MAX_BYTES when encoded."""
    found = _explain(considered)
    refusals = _refusals(found)
    for rows, names in _LIMITS:
        made = _shortened(event, considered, found, refusals, rows, names)
        if len(_encode(made)) <= MAX_BYTES:
            break
    return made


def _explain(considered: Considered) -> Explanation:
    """The run that the attempt's decision came from: the group that worked, else the first that was tried."""
    attempt, status = considered.attempt, considered.status
    term = attempt.observed_affinity
    if attempt.decision.error is not None and attempt.failures:
        term = attempt.failures[0][1]
    answers = [{item.cluster: item.replicas for item in considered.estimates}] if considered.estimates else []
    run = Status(term, status.last_scheduled_time)
    return explain_run(
        considered.clusters,
        considered.view,
        run,
        answers,
        considered.options,
        considered.peers,
        decision=attempt.decision,
    )


def _refusals(found: Explanation) -> list[tuple[str, str, list[str]]]:
    """Names by filter and reason, most first."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, refusal in found.refused.items():
        grouped.setdefault(refusal, []).append(name)
    return sorted(((*key, names) for key, names in grouped.items()), key=lambda item: (-len(item[2]), item[:2]))


def _shortened(
    event: PlacementDecided | PlacementFailed,
    considered: Considered,
    found: Explanation,
    refusals: Sequence[tuple[str, str, list[str]]],
    rows: int,
    names: int,
) -> PlacementExplained:
    ranked = sorted(found.clusters, key=_by_weight_of_part)
    accurate = {item.cluster: item for item in considered.estimates}
    shown = sorted(ranked[:rows], key=lambda item: item.rank)
    failed = isinstance(event, PlacementFailed)
    decision = considered.attempt.decision
    return PlacementExplained(
        key=event.key,
        uid=event.uid,
        decided_at=event.failed_at if isinstance(event, PlacementFailed) else event.scheduled_at,
        trigger=event.trigger,
        strategy=found.strategy,
        replicas=considered.view.replicas,
        affinity_name=found.observed_affinity,
        error=decision.error or "" if failed else "",
        message=_cut(decision.message),
        tried=tuple(ExplainedTerm(name, _cut(run.message)) for _, name, run in considered.attempt.failures[:rows]),
        total=len(considered.clusters.clusters),
        clusters=tuple(_cluster(item, accurate.get(item.name)) for item in shown),
        others=len(ranked) - len(shown),
        refused=tuple(
            ExplainedRefusal(which, _cut(reason), len(all_of_them), tuple(all_of_them[:names]))
            for which, reason, all_of_them in refusals[:rows]
        ),
        more_reasons=sum(len(item[2]) for item in refusals[rows:]),
        ignored=len(found.ignored),
        regions=found.regions[:rows],
        more_regions=max(len(found.regions) - rows, 0),
        steps=found.steps[:rows],
        tie_break="Z to A" if ties_descend(considered.view.uid) else "A to Z",
    )


def _by_weight_of_part(item: ExplainedCluster) -> tuple[bool, bool, bool, int]:
    """What got replicas or runs comes first, then what was selected, then by rank."""
    return not item.replicas, not item.running, not item.selected, item.rank


def _cluster(item: ExplainedCluster, accurate: ClusterEstimate | None) -> ExplainedCluster:
    heeded = accurate is not None and accurate.replicas == item.available
    return replace(
        item,
        available=_counted(item.available),
        room=_counted(item.room),
        source=(accurate.source or "nodes") if heeded and accurate is not None else "summary",
        at=accurate.at if heeded and accurate is not None else 0.0,
        reserved=accurate.reserved if heeded and accurate is not None else 0,
    )


def _counted(count: int) -> int:
    return -1 if count >= MAX_REPLICAS else count


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


class Changed(Struct, frozen=True, eq=False):
    """A decision that changed a placement, on its way to be explained."""

    key: ObjectKey
    event: PlacementDecided | PlacementFailed
    considered: Considered

"""Summarizes the estimates of a placement in one line: available replicas, source, age, and what was reserved since."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.events.estimate import ClusterEstimate
from schemas.events.placement import PlacementDecided, PlacementFailed


def capacity_summary(event: PlacementDecided | PlacementFailed) -> str:
    """The estimates that a placement used; empty where it asked for none."""
    if event.estimate_missed:
        return "room by summaries alone, no estimate came in time"
    groups: dict[tuple[str, str], list[ClusterEstimate]] = {}
    for item in event.estimates:
        groups.setdefault((item.source, _age(item, event.provenance.decided_at)), []).append(item)
    said = [" ".join([_counts(items), *_source_and_age(*about)]) for about, items in groups.items()]
    return f"room {'; '.join(said)}" if said else ""


def _source_and_age(source: str, age: str) -> list[str]:
    """Source and age of an estimate, as far as known."""
    origin = {"nodes": "on nodes", "agent": "by the agent"}.get(source, source)
    return [part for part in (origin, age) if part]


def _counts(items: Sequence[ClusterEstimate]) -> str:
    return " ".join(
        f"{item.cluster}={item.replicas}" + (f" ({item.reserved} given away since)" if item.reserved else "")
        for item in items
    )


def _age(item: ClusterEstimate, decided: float) -> str:
    if not item.at or not decided:
        return ""
    seconds = max(0.0, decided - item.at)
    return f"{seconds * 1000:.0f} ms before" if seconds < 1 else f"{seconds:.1f} s before"

"""Decides whether a decision says the same as the one on record: then it is not appended again."""

from __future__ import annotations

from msgspec import Raw

from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from services._rules.scheduling.schedule import GroupAttempt


def stands(
    placed: PlacementDecided, wanted: tuple[TargetCluster, ...], placement: Raw, replicas: int, attempt: GroupAttempt
) -> bool:
    """Whether a placement found now is the one in force, asked for in the same way."""
    return (
        placed.clusters == wanted
        and placed.placement == placement
        and placed.replicas == replicas
        and placed.affinity_name == attempt.observed_affinity
    )


def fails_alike(placed: PlacementFailed, failed: PlacementFailed) -> bool:
    """Whether a failure says nothing new; how much others use beside it changes all the time, and does not count."""
    before, now = placed.refusal, failed.refusal
    if before is not None and now is not None:
        same = (before.quota, before.resource, before.limit) == (now.quota, now.resource, now.limit)
    else:
        same = before is None and now is None and placed.message == failed.message
    return (
        same
        and placed.reason == failed.reason
        and placed.requests == failed.requests
        and placed.clusters == failed.clusters
        and placed.placement == failed.placement
        and placed.binding_generation == failed.binding_generation
    )

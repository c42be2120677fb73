"""Decides which templates follow the replicas of their members, and which replicas those are."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, field

from schemas.events.placement import PlacementDecided
from services.autoscaler.state import AutoscalerState, Target


class _Scheduling(Struct, rename="camel"):
    replica_scheduling_type: str = ""


class _Placement(Struct, rename="camel"):
    replica_scheduling: _Scheduling = field(default_factory=_Scheduling)


_placement: Final = msgspec.json.Decoder(_Placement)


def follows_members(target: Target) -> bool:
    """Whether members keep the replicas of a target, so that its template may take over their sum.

    That is a Deployment with the label whose replicas are divided (docs/sources.md#autoscaling).
    """
    placed = target.placed
    return target.retained and isinstance(placed, PlacementDecided) and _divided(placed.placement)


def replicas_of_members(state: AutoscalerState, target: Target) -> int | None:
    """The replicas that a template takes over; None where it keeps its own, or a cluster has not reported any yet."""
    bound, placed, rollup = target.bound, target.placed, target.rollup
    if bound is None or rollup is None or not follows_members(target) or rollup.uid != target.uid:
        return None
    if not isinstance(placed, PlacementDecided) or placed.binding_generation != bound.generation:
        return None
    if len(rollup.items) != len(target.targets):
        return None
    scales = state.scales(target, bound.replicas)
    if any(item.away or item.existing <= 0 for item in scales):
        return None
    total = sum(item.existing for item in scales)
    return total if total != bound.replicas else None


def _divided(placement: Raw | object) -> bool:
    if placement is UNSET or not isinstance(placement, Raw):
        return False
    return _placement.decode(placement).replica_scheduling.replica_scheduling_type == "Divided"

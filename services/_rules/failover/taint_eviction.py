"""Decides whether an object has to leave a tainted cluster, and how much longer it may stay.

Source: docs/sources.md#failover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from services._rules.kubernetes.taints import Taint, Toleration, matching_tolerations, seconds_left

NO_EXECUTE: Final = "NoExecute"
GRACEFULLY: Final = "Gracefully"


class AppliedPlacementError(ValueError):
    """The placement that an object was scheduled by is missing or cannot be read."""


class Stay(Struct, frozen=True):
    """How long an object may stay: not at all, `seconds` more, or (None) without limit."""

    leave: bool
    seconds: float | None = None


STAYS: Final = Stay(leave=False)


class _Placement(Struct, rename="camel"):
    cluster_tolerations: list[Toleration] | None = None


_placement = msgspec.json.Decoder(_Placement).decode


def tolerations_of(applied: str | bytes) -> tuple[Toleration, ...]:
    """Tolerations of an applied placement in JSON; raises AppliedPlacementError when there is none to read."""
    if not applied:
        raise AppliedPlacementError("the object was never placed: there is no applied placement to read tolerations of")
    try:
        return tuple(_placement(applied).cluster_tolerations or ())
    except msgspec.MsgspecError as error:
        raise AppliedPlacementError(f"the applied placement cannot be read: {error}") from None


def no_execute(taints: Sequence[Taint]) -> tuple[Taint, ...]:
    """The taints that drive out what runs."""
    return tuple(taint for taint in taints if taint.effect == NO_EXECUTE)


def stay(taints: Sequence[Taint], tolerations: Sequence[Toleration], now: float) -> Stay:
    """How long an object may stay in a cluster with these taints; only NoExecute counts."""
    driving = no_execute(taints)
    if not driving:
        return STAYS
    tolerated, used = matching_tolerations(driving, tolerations)
    if not tolerated:
        return Stay(leave=True, seconds=0.0)
    left = seconds_left(driving, used, datetime.fromtimestamp(now, UTC))
    return Stay(leave=left == 0.0, seconds=left)


def cluster_purge_mode(failover: Mapping[str, Any] | None, flag: str) -> str:
    """Purge mode of the copy in a failed cluster: the policy's, else `flag`, else Gracefully.

    Source: docs/sources.md#failover.
    """
    cluster = (failover or {}).get("cluster")
    if cluster is not None:
        return str(cluster.get("purgeMode") or GRACEFULLY)
    return flag or GRACEFULLY


def taints_message(taints: Sequence[Taint]) -> str:
    """The taints of a cluster in the words of its Events."""
    if not taints:
        return "cluster now does not have taints"
    parts = []
    for taint in taints:
        value = f"Value:{taint.value}," if taint.value else ""
        parts.append(f"{{Key:{taint.key},{value}Effect:{taint.effect}}}")
    return f"cluster now has taints([{','.join(parts)}])"

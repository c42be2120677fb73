"""Conditions of an autoscaler, with the words that users of Kubernetes know."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ABLE_TO_SCALE: Final = "AbleToScale"
SCALING_ACTIVE: Final = "ScalingActive"
SCALING_LIMITED: Final = "ScalingLimited"


class Condition(Struct, frozen=True):
    """One condition of an autoscaler, without the moment at which it turned."""

    type: str
    status: str
    reason: str
    message: str

"""Reads derived properties of an observation."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, UnsetType

from schemas.events.observed import WorkObserved

FAILED: Final = "AppliedFailed"
"""Reason of a report on a copy that could not be brought to its work, or not be deleted."""
LEAVING: Final = "Terminating"
"""Reason of a report on an object whose deletion the member accepted, and that finalizers still hold there."""


class _Generations(Struct, rename="camel"):
    generation: int = 0
    observed_generation: int = 0


_generations = msgspec.json.Decoder(_Generations).decode


def not_looked_at(event: WorkObserved) -> bool:
    """Whether no controller in the member has seen the last write: the status names an older generation."""
    if not event.applied or isinstance(event.status, UnsetType):
        return False
    try:
        seen = _generations(event.status)
    except msgspec.MsgspecError:
        return False
    return seen.observed_generation < seen.generation

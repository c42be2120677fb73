"""Reads from a binding's spec what scheduling needs; the unreadable counts as nothing (the decision reports it)."""

from __future__ import annotations

import msgspec

from schemas.manifest import Manifest
from services._rules.capacity.reserved import Needs, needs_of
from services._rules.kubernetes.quantity import QuantityError
from services._rules.scheduling.compiled_placement import CompiledPlacement, compile_placement


def scheduler_of(spec: Manifest | None) -> str:
    """The name of the scheduler that a binding's spec asks for; none means the default one."""
    return str((spec or {}).get("schedulerName") or "default-scheduler")


def compiled_of(spec: Manifest | None) -> CompiledPlacement | None:
    """The placement that is asked for; None where it cannot be read."""
    try:
        return compile_placement(spec.get("placement")) if spec is not None else None
    except (msgspec.ValidationError, ValueError, TypeError):
        return None


def priority_of(spec: Manifest | None) -> int:
    """The priority that the detector resolved; what is none counts as 0."""
    found = ((spec or {}).get("schedulePriority") or {}).get("priority")
    return found if isinstance(found, int) else 0


def needs_in(spec: Manifest | None) -> Needs:
    """What one replica takes of a member; nothing where it cannot be read."""
    try:
        return needs_of(spec, detailed=False) if spec is not None else ()
    except (QuantityError, ValueError, TypeError):
        return ()

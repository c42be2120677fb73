"""Facts about leadership: which instance of a service may append."""

from __future__ import annotations

from schemas.envelope import Event


class LeaseTaken(Event, frozen=True, kw_only=True, omit_defaults=True, tag="LeaseTaken.v1"):
    """From here on only `instance` writes the subjects of `service`."""

    service: str
    instance: str
    taken_at: float = 0.0
    reason: str = ""


LeaseEvent = LeaseTaken

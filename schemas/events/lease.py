"""Facts about leadership: which instance of a service may append."""

from __future__ import annotations

from schemas.envelope import Event


class LeaseTaken(Event, frozen=True, kw_only=True, omit_defaults=True, tag="LeaseTaken.v1"):
    """From here on only `instance` writes the subjects of `service`, which may be the name of a shard group.

    `groups` is how many the work of the service is divided into; that of its first group counts.
    """

    service: str
    instance: str
    taken_at: float = 0.0
    reason: str = ""
    groups: int = 1


LeaseEvent = LeaseTaken

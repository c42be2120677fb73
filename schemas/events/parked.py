"""Records of what could not be processed (stream PARKED)."""

from __future__ import annotations

from schemas.envelope import Event


class KeyParked(Event, frozen=True, kw_only=True, omit_defaults=True, tag="KeyParked.v1"):
    """A service set a key aside: `position` is the input it failed on, `reason` is the error with its remedy."""

    service: str
    key: str
    reason: str
    position: int = 0
    subject: str = ""
    at: float = 0.0


ParkedEvent = KeyParked

"""Records of what could not be processed (stream PARKED), and what operators want done about it (stream FACTS)."""

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


class KeyRetried(Event, frozen=True, kw_only=True, omit_defaults=True, tag="KeyRetried.v1"):
    """An operator wants the service to decide a parked key again: `by` whom, `note` why.

    `reason` is why the key is parked, as the operator saw it.
    """

    service: str
    key: str
    by: str
    at: float
    reason: str = ""
    note: str = ""


class KeyDropped(Event, frozen=True, kw_only=True, omit_defaults=True, tag="KeyDropped.v1"):
    """An operator gives a parked key up: the service leaves it alone as long as it fails for this very `reason`.

    It counts as parked no more. It is decided again like any other key when an event makes it dirty, and parked again
    when it fails for another reason. `by` and `note` say who gave it up and why.
    """

    service: str
    key: str
    by: str
    at: float
    reason: str = ""
    note: str = ""


ParkedEvent = KeyParked
UnparkedEvent = KeyRetried | KeyDropped

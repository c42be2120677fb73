"""What an instance of a service answers about itself: health, leadership, lag and parked keys."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

MOST_PARKED: Final = 200
"""Parked keys that one answer names."""


class ParkedKey(Struct, frozen=True, omit_defaults=True):
    """A key that its service does not try, and why; `dropped` once an operator gave it up for that reason."""

    key: str
    reason: str
    dropped: bool = False


class InstanceReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of one service as it sees itself.

    `reasons` say by check why it is not ready. `lag` is the messages that wait to be folded, by stream; `dirty` keys
    wait for a decision, `blocked` ones for a newer version. `parked` counts what `keys` names up to a bound, `dropped`
    what operators gave up. `facts` is what else /readyz shows.
    """

    service: str
    instance: str
    version: str
    host: str = ""
    at: float = 0.0
    leader: bool = False
    leads: bool = True
    """Whether one instance of the service leads; else all of them work."""
    reasons: dict[str, str] = {}
    lag: dict[str, int] = {}
    dirty: int = 0
    blocked: int = 0
    parked: int = 0
    dropped: int = 0
    keys: tuple[ParkedKey, ...] = ()
    facts: dict[str, Any] = {}

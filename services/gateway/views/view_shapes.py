"""Fields that bindings and works share: times, ages, conditions and spliced JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.manifest import Manifest
from services.gateway.state import Since

encode: Final = msgspec.json.Encoder().encode
_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


@lru_cache(maxsize=4096)
def time_text(at: float) -> str:
    """A time in seconds since 1970 as the API writes it, to the second."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, since: Since, reason: str, message: str) -> Manifest:
    """One entry of status.conditions."""
    return {
        "type": kind,
        "status": "True" if since.status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": time_text(since.at),
    }


def fields_of(data: Raw | bytes) -> dict[str, Any]:
    """Fields of a JSON object, their values left as they are."""
    return _fields(data)


def age(created: float, now: float) -> str:
    """How long ago a time was, in at most two units, coarser the longer it is."""
    seconds = int(now - created)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365 if days < 2920 else 0, "d")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"

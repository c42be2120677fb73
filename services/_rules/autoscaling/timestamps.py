"""Reads moments as API servers write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def seconds(text: Any) -> float | None:
    """Seconds since 1970 of an RFC 3339 text; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def moment(seconds_since_1970: float) -> str:
    """The text of a moment, in whole seconds."""
    return datetime.fromtimestamp(seconds_since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Fields that bindings and works share: times, ages, conditions and spliced JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.manifest import Manifest
from services.gateway.state import Since

GROUP: Final = "work.karmada.io"

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


def summed(metadata: Manifest, conditions: Mapping[str, Since | None]) -> Manifest:
    """An object with no more than its metadata and the status of the conditions that it has."""
    shown = {kind: "True" if since.status else "False" for kind, since in conditions.items() if since is not None}
    return {
        "metadata": metadata,
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in shown.items()]},
    }


def fields_of(data: Raw | bytes) -> dict[str, Any]:
    """Fields of a JSON object, their values left as they are."""
    return _fields(data)

"""Reads durations as Go programs write them: `60s`, `1m30s`, `2h`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(text: str) -> float | None:
    """Seconds of a duration, None for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)

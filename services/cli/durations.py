"""Reads durations as Go programs write them: `60s`, `1m30s`, `2h`."""

from __future__ import annotations

import re
from typing import Final

from services.cli.running import Failed

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds_of(text: str, option: str) -> float:
    """Seconds of a duration; raises Failed, naming the option, for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Failed(f"{option} {text!r} is no duration; write for example 60s, 1m30s or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)

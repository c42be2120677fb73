"""Reads durations that are given as options."""

from __future__ import annotations

from services._kit.base.durations import seconds
from services.cli.common.running import Failed


def seconds_of(text: str, option: str) -> float:
    """Seconds of a duration such as `1m30s`; raises Failed, naming the option, for anything else."""
    found = seconds(text)
    if found is None:
        raise Failed(f"{option} {text!r} is no duration; write for example 60s, 1m30s or 2h")
    return found

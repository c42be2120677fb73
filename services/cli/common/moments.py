"""Reads durations, and reads and writes moments: RFC 3339 times, and how long ago something was."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from services._kit.base.durations import seconds
from services.cli.common.running import Failed


def seconds_of(text: str, option: str) -> float:
    """Seconds of a duration such as `1m30s`; raises Failed, naming the option, for anything else."""
    found = seconds(text)
    if found is None:
        raise Failed(f"{option} {text!r} is no duration; write for example 60s, 1m30s or 2h")
    return found


_AGO: Final = re.compile(r"-?\d+(?:\.\d+)?(?:ms|s|m|h|d)")


def moment(text: str, option: str, now: float) -> float:
    """Seconds since 1970 of a time (`2026-11-21T12:00:00Z`, without a zone: local) or of how long ago (`10m`, `2d`).

    Raises Failed, naming the option, for anything else.
    """
    if _AGO.match(text):
        days, _, rest = text.lstrip("-").rpartition("d") if "d" in text else ("0", "", text.lstrip("-"))
        try:
            return now - float(days) * 86400.0 - (seconds_of(rest, option) if rest else 0.0)
        except (ValueError, Failed):
            raise _no_moment(text, option) from None
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise _no_moment(text, option) from None


def _no_moment(text: str, option: str) -> Failed:
    return Failed(f"{option} {text!r} is no time; write for example 2026-11-21T12:00:00Z, or how long ago: 10m, 2h, 1d")


def stamp(seconds: float, timespec: str = "milliseconds") -> str:
    """A moment as RFC 3339 with milliseconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def present() -> str:
    """The present moment as Kubernetes writes times: RFC 3339 with seconds, in UTC."""
    return stamp(time.time(), "seconds")


def age(seconds: float) -> str:
    """How long something lasted, as kubectl writes ages: `45s`, `12m`, `3h`, `20d`."""
    whole = max(0, int(seconds))
    for size, unit, until in ((1, "s", 120), (60, "m", 7200), (3600, "h", 2 * 86_400)):
        if whole < until:
            return f"{whole // size}{unit}"
    return f"{whole // 86_400}d"

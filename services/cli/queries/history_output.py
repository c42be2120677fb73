"""Prints the history of one object: aligned lines for people, or one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from schemas.keys import ObjectKey
from services._rules.history.timeline import Entry, because, line, offset
from services.cli.common.moments import stamp
from services.cli.common.printing import aligned

_BROADEST: Final = 80
PAUSE_MS: Final = 60_000


def clock_time(seconds: float) -> str:
    """`12:00:00.123` of the local day."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S.%f")[:-3]


def render_history(entries: Sequence[Entry], *, wide: bool = False) -> str:
    """A history as aligned lines: time since its first step, subject, position, event, meaning, cause.

    Steps after a pause of more than a minute stand below the time at which they began, and count from there. Wide lines
    also show the time of day, and how much of the log the deciding service had seen.
    """
    lines: list[list[str]] = []
    begins: list[int] = []
    for index, entry in enumerate(entries):
        if not index or entry.offset_ms - entries[index - 1].offset_ms > PAUSE_MS:
            begins.append(index)
        since = entry.offset_ms - entries[begins[-1]].offset_ms
        cells = [offset(since), entry.subject, f"#{entry.position}", entry.event, entry.summary]
        if wide:
            cells.insert(0, clock_time(entry.time))
            cells.append(f"saw #{entry.as_of}" if entry.as_of else "")
        lines.append([*cells, because(entry)])
    shown = aligned(lines, broadest=_BROADEST).splitlines(keepends=True)
    if len(begins) > 1:
        for index in begins:
            when = datetime.fromtimestamp(entries[index].time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
            shown[index] = f"{chr(10) if index else ''}{when}\n{shown[index]}"
    return "".join(shown)


def document(key: ObjectKey, entries: Sequence[Entry]) -> dict[str, Any]:
    """A history as the JSON document that the gateway serves, too."""
    return {
        "kind": "History",
        "apiVersion": "fleetlog/v1",
        "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
        "began": stamp(entries[0].time),
        "entries": [{**msgspec.to_builtins(entry), "line": line(entry)} for entry in entries],
    }

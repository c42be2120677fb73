"""Decides what is put on record about a request for a member: no secrets, and nothing without bounds."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus

from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.request import MemberRequested

LONGEST_PATH: Final = 1000
LONGEST_NAME: Final = 256
LONGEST_PROBLEM: Final = 300
MOST_GROUPS: Final = 32
_LONGEST_WORD: Final = 40
_LARGEST: Final = 1 << 53
_TOLD: Final = frozenset(
    {"watch", "follow", "container", "stdin", "stdout", "stderr", "tty", "tailLines", "dryRun", "limit", "ports"}
)
"""Query parameters whose values are told: they say what was done. Others may hold secrets: arguments of commands do."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def plain(text: str, longest: int) -> str:
    """A text of another system in a form that can be shown: one line, bounded."""
    return _CONTROL.sub(" ", text[:longest])


def told_path(path: str) -> str:
    """A path for the record: with the names of its query's parameters, and the values of few of them."""
    bare, _, query = path[: 16 * LONGEST_PATH].partition("?")
    parts = []
    for part in query.split("&") if query else ():
        name, equals, _ = part.partition("=")
        parts.append(part if unquote_plus(name) in _TOLD else name + equals)
    return plain(bare + ("?" + "&".join(parts) if parts else ""), LONGEST_PATH)


def on_record(event: MemberRequested, cluster: str, side: str, now: float) -> MemberRequested:
    """A record as it is stored: of this cluster and side, and bounded, whatever it said of itself."""
    started = event.started if 0.0 <= event.started <= now else now
    return replace(
        event,
        cluster=cluster,
        side=side,
        by=plain(event.by, LONGEST_NAME),
        user=plain(event.user, LONGEST_NAME),
        groups=tuple(plain(group, LONGEST_NAME) for group in event.groups[:MOST_GROUPS]),
        method=plain(event.method, _LONGEST_WORD),
        path=told_path(event.path),
        upgrade=plain(event.upgrade, _LONGEST_WORD),
        status=event.status if 0 <= event.status <= 999 else 0,
        problem=plain(event.problem, LONGEST_PROBLEM),
        started=started,
        seconds=round(event.seconds, 6) if 0.0 <= event.seconds <= now - started + 1.0 else 0.0,
        sent=_count(event.sent),
        received=_count(event.received),
        missed=_count(event.missed),
        prev=0,
        provenance=Provenance(),
    )


def _count(number: int) -> int:
    return max(0, min(number, _LARGEST))

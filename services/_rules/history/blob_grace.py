"""Grace period for the garbage collection of unreferenced blobs, so that a writer can still reference those it found.

A writer references blobs only within `TRUST` of having stored or found them, and stores them again when older
than `REFRESH_AFTER`. So every blob that an event names was stored less than `REFRESH_AFTER + TRUST` before the event:
a collector that removes only blobs older than `GRACE` at the start of its search for references never removes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HOUR: Final = 3600.0
GRACE: Final = 2 * HOUR
REFRESH_AFTER: Final = GRACE / 2
TRUST: Final = GRACE / 4

NAMING: Final = ("template.>", "work.>")
"""Subjects whose events name bytes."""

_DIGEST: Final = re.compile(rb'"digest":"([^"]+)"')


def named(data: bytes) -> Iterable[str]:
    """Digests in an event; a manifest that looks like one keeps bytes too long, never too short."""
    return [digest.decode("utf-8", "replace") for digest in _DIGEST.findall(data)]


def garbage(stored_at: float, looked_at: float) -> bool:
    """Whether bytes that no event named when the search began may go; seconds since 1970."""
    return stored_at < looked_at - GRACE

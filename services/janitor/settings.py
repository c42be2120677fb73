"""Settings of the janitor: how long ended things stay, and how many events a subject keeps."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from services._kit.base.settings import Settings

DAY: Final = 86400.0


class JanitorSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times in seconds."""

    janitor_retention: Annotated[float, Meta(ge=0)] = 7 * DAY
    """How long all facts stay after the last event of an object that ended."""
    janitor_tail: Annotated[int, Meta(ge=1)] = 64
    """Events that FACTS keeps of a subject; older ones are in HISTORY."""
    janitor_tight_tail: Annotated[int, Meta(ge=1)] = 8
    """Events that FACTS keeps of a subject while it is so full that it raises an alarm."""
    janitor_fill_period: Annotated[float, Meta(gt=0)] = 15.0
    """How often is read how full the streams are."""
    janitor_blob_period: Annotated[float, Meta(gt=0)] = DAY / 4
    """Seconds between two collections of unreferenced manifest bytes."""
    janitor_patience: Annotated[float, Meta(gt=0)] = 5.0
    """After how long a purge that did not get through, or that HISTORY is behind of, is tried again."""

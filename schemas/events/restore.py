"""Facts about a restore: while one is under way nothing is delivered, because the state of the log may be outdated."""

from __future__ import annotations

from schemas.envelope import Event


class RestoreStarted(Event, frozen=True, kw_only=True, omit_defaults=True, tag="RestoreStarted.v1"):
    """What stands before this position may be older than the clusters: nothing is delivered until it is compared.

    `origin` is the identity of the log that was exported, `position` its last position in the file; both are empty for
    a restore of the control plane. While `writing`, the control plane lacks objects that a command is about to write:
    nothing is compared before the next RestoreStarted. Times in seconds since 1970.
    """

    reason: str = ""
    origin: str = ""
    position: int = 0
    exported_at: float = 0.0
    started_at: float = 0.0
    writing: bool = False


class RestoreCompared(Event, frozen=True, kw_only=True, omit_defaults=True, tag="RestoreCompared.v1"):
    """`service` has decided everything again, with all in view that services before it compared.

    `restore` is the position of the RestoreStarted that this answers.
    """

    service: str
    restore: int
    compared_at: float = 0.0


class RestoreReleased(Event, frozen=True, kw_only=True, omit_defaults=True, tag="RestoreReleased.v1"):
    """A person ended the restore at position `restore` before everything was compared."""

    restore: int
    by: str = ""
    missing: tuple[str, ...] = ()
    released_at: float = 0.0


RestoreEvent = RestoreStarted | RestoreCompared | RestoreReleased

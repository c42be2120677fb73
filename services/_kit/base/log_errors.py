"""Errors of the log as one small tree: every vendor error is translated into it at the border."""

from __future__ import annotations

from collections.abc import Sequence


class LogError(Exception):
    """Base of everything the log refuses or cannot answer."""


class Refused(LogError):
    """The log answered no and stored nothing; `err_code` is JetStream's error code (0: refused before sending)."""

    def __init__(self, err_code: int, description: str) -> None:
        super().__init__(f"the log refused: {description} (code {err_code})")
        self.err_code = err_code
        self.description = description


class Conflict(Refused):
    """An expected last sequence did not match; nothing of the batch was stored."""


class FenceLost(Conflict):
    """Another instance took the lease that the batch was fenced with; this one must stop writing."""


class Duplicate(Conflict):
    """The batch carries a message id that the log already holds: it was stored before."""


class TooLarge(Refused):
    """A message or batch is larger than the log takes."""


class StreamFull(Refused):
    """The stream reached its limit and refuses new messages; an operator has to make room."""


class Unavailable(LogError):
    """The log cannot be reached or has no leader; nothing was stored and a retry is safe."""


class Ambiguous(LogError):
    """No answer in time or a lost connection: the write may or may not have been stored."""


class LogReplaced(LogError):
    """The stream is not the one that was read before (recreated, or restored from older data): rebuild from it."""


class Unreadable(LogError):
    """Messages that are on a stream cannot be read any more: bytes of the server's files are damaged."""

    def __init__(self, stream: str, messages: Sequence[object]) -> None:
        shown = ", ".join(str(message) for message in messages[:_SHOWN])
        more = f" and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
        verb = "message {} is" if len(messages) == 1 else "messages {} are"
        super().__init__(
            f"stream {stream}, {verb.format(shown + more)} unreadable; "
            "run `fleetlog log repair --quarantine` with everything else stopped"
        )
        self.stream = stream
        self.messages = tuple(messages)


_SHOWN = 5

IN_PROCESS = 10164
"""Of a stream that several servers keep: another append with an expectation about the same subject is under way."""
BEING_STORED = 10158
CONFLICTS = frozenset({10071, IN_PROCESS})
DUPLICATE = 10201
FULL = frozenset({10023, 10047, 10077, 10122})
TOO_LARGE = frozenset({10054, 10097, 10199})
# Servers that have not joined, no leader, restarting, a batch abandoned half-way, too many under way: nothing stored.
TRANSIENT = frozenset({10005, 10008, 10009, 10176, 10202, 10203, 10210, 10211})


def from_api(code: int, err_code: int, description: str) -> LogError:
    """The error behind a JetStream answer; `err_code` decides, because a full stream answers 503 like an outage."""
    if err_code in CONFLICTS:
        return Conflict(err_code, description)
    if err_code == DUPLICATE:
        return Duplicate(err_code, description)
    if err_code == BEING_STORED:
        return Ambiguous(f"the log is still storing this message: {description} (code {err_code})")
    if err_code in FULL:
        return StreamFull(err_code, description)
    if err_code in TOO_LARGE:
        return TooLarge(err_code, description)
    if err_code in TRANSIENT or (code == 503 and err_code == 0):
        return Unavailable(f"the log is not available: {description} (code {err_code or code})")
    return Refused(err_code, description)

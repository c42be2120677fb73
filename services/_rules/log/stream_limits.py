"""Size limits of streams, and the fill level at which an operator has to be alerted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.topology import STREAMS, Stream
from services._rules.kubernetes.quantity import QuantityError, parse

ALARM: Final = 0.7
"""Share of its bytes from which on a stream raises an alarm."""
CALM: Final = 0.65
"""Share below which the alarm ends: between the two it stays as it is."""
LEAST: Final = 16 << 20
"""Bytes below which no stream is bounded by the room that a server has."""


class RoomError(ValueError):
    """A size of a stream that is not understood; the message names it."""


class Fill(Struct, frozen=True, kw_only=True):
    """How full a stream is; `most` bytes are -1 where it is unbounded.

    When it is full it `refuses` new messages, or drops the oldest. What a `passing` stream holds is dropped by age
    anyway: it may well be full. Of its `replicas`, `current` have everything, the leader among them; `behind` is how
    many messages the slowest lacks.
    """

    stream: str
    bytes: int
    most: int
    messages: int
    refuses: bool = False
    passing: bool = False
    consumers: int = 0
    replicas: int = 1
    current: int = 1
    behind: int = 0

    @property
    def ratio(self) -> float:
        """Share of its bytes that is taken; 0 where it is unbounded."""
        return self.bytes / self.most if self.most > 0 else 0.0

    @property
    def alarming(self) -> bool:
        """Whether an operator has to act: soon this stream refuses new messages, or drops old ones that still count."""
        return self.at(ALARM)

    def at(self, ratio: float) -> bool:
        """Whether a share is reached that matters."""
        return not self.passing and self.ratio >= ratio

    @property
    def words(self) -> str:
        """What it is and what to do, for people."""
        then = "refuses writes" if self.refuses else "drops its oldest messages"
        return (
            f"stream {self.stream} holds {self.bytes >> 20} of {self.most >> 20} MiB ({self.ratio:.0%}) and {then} "
            f"when it is full; give it more room with FLEETLOG_TOPOLOGY_BYTES={self.stream}=<size>"
        )


def alarms(before: frozenset[str], fills: Sequence[Fill]) -> frozenset[str]:
    """The streams that raise an alarm, which ends a little below where it began."""
    return frozenset(fill.stream for fill in fills if fill.at(CALM if fill.stream in before else ALARM))


def sizes(texts: Sequence[str]) -> dict[str, int]:
    """Bytes by stream of texts like `FACTS=20Gi`; raises RoomError."""
    known = {stream.name for stream in STREAMS}
    found: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.partition("=")
        if not equals or name not in known:
            raise RoomError(f"{text!r}: expected <stream>=<size> with one of {', '.join(sorted(known))}")
        try:
            found[name] = parse(size).value()
        except QuantityError as error:
            raise RoomError(f"{text!r}: {error}") from None
        if found[name] < LEAST:
            raise RoomError(f"{text!r}: a stream holds at least {LEAST >> 20}Mi")
    return found


def most_bytes(stream: Stream, present: int | None, used: int, wanted: Mapping[str, int]) -> int:
    """The bytes a stream may hold; `present` is what it may now (None: there is no stream yet), `used` what it holds.

    What an operator set is kept until another size is asked for. A stream that refuses when it is full is never made
    smaller than half as much again as it holds.
    """
    asked = wanted.get(stream.name)
    if asked is None:
        if stream.max_bytes <= 0:
            return present if present is not None else stream.max_bytes
        if present is not None and present > 0:
            return present
        # Of what an unbounded stream holds, nothing is dropped by bounding it.
        return max(stream.max_bytes, 2 * used)
    return max(asked, used + used // 2) if stream.discard == "new" else asked

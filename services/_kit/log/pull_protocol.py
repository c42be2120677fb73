"""The pull consumer protocol of JetStream: positions in acknowledgement subjects, statuses, requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

NANOSECOND: Final = 1_000_000_000
NOTHING: Final = "100"
"""Status of a heartbeat: nothing was on its way for a while."""


class Ended(Struct, frozen=True):
    """The end of a request, of which `left` messages will not come (None: all); or of the consumer, then with `why`."""

    left: int | None = None
    why: str = ""

    def on_way(self, asked: int) -> int:
        """How many of those that were asked for are still to come."""
        return max(0, asked - self.left) if self.left is not None else 0


def positions(reply: str) -> tuple[int, int, int, int]:
    """Stream sequence, consumer sequence, time in ns and messages still pending, from a delivery's reply subject."""
    tokens = reply.split(".")
    at = 4 if len(tokens) == 9 else 6
    return int(tokens[at + 1]), int(tokens[at + 2]), int(tokens[at + 3]), int(tokens[at + 4])


def ended(headers: Mapping[str, str]) -> Ended:
    """The end of a pull request by its status, which is no heartbeat."""
    status, text = headers.get("Status", ""), headers.get("Description", "").lower()
    if status == "503" or (status == "409" and ("deleted" in text or "leadership" in text or "shutdown" in text)):
        return Ended(why=text or "nobody answers for it")
    left = headers.get("Nats-Pending-Messages")
    return Ended(left=int(left) if left else None)


def request(messages: int, size: int, expires: float, heartbeat: float) -> bytes:
    """A request for so many messages and bytes at most; `expires` and `heartbeat` in seconds."""
    return msgspec.json.encode(
        {
            "batch": messages,
            "max_bytes": size,
            "expires": int(expires * NANOSECOND),
            "idle_heartbeat": int(heartbeat * NANOSECOND),
        }
    )

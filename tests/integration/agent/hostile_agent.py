"""A connection of an agent that turned against the hub, and what there is that it must not learn."""

from __future__ import annotations

from nats.aio.msg import Msg

from schemas.keys import ObjectKey
from services._kit.base.log_errors import LogError
from services._kit.log.connection import Connection

SECRET = "known-only-to-m2"
FOR_ALL = "how-objects-are-interpreted"
POLICY = "a-policy-of-the-hub"
THEIR_UID = "0b9c6f4e-the-second"
THEIRS = ObjectKey("", "configmaps", "default", "theirs")


class HostileAgent:
    """A connection with an agent's key that keeps everything it is sent."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.heard: list[Msg] = []

    async def hear(self, message: Msg) -> None:
        """Keep a message."""
        self.heard.append(message)

    async def ask(self, subject: str, body: bytes) -> bytes:
        """The answer to a request, empty without one."""
        try:
            return bytes((await self.connection.request(subject, body, timeout=10.0)).data)
        except LogError:
            return b""

    def learnt(self, what: str) -> bool:
        """Whether something was in any message it got."""
        return any(what.encode() in message.data for message in self.heard)

    def answered(self, status: str) -> bool:
        """Whether the server ended a request with a status."""
        return any((message.headers or {}).get("Status") == status for message in self.heard)

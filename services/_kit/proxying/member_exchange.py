"""One request that leaves for a member, and the exchange that follows: shared by push and pull members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Protocol

from msgspec import Struct

CHUNK: Final = 64 << 10
"""Bytes that are read, or handed on, at a time at most."""


class MemberUnreachable(Exception):
    """A member gave no answer: it is not there, it hangs, or its agent is not connected; the text is for the caller."""


class MemberUnknown(MemberUnreachable):
    """There is no cluster of this name; the text is for the caller."""


class MemberLeft(MemberUnreachable):
    """A cluster left while a request was under way; the text is for the caller."""


class MemberBadAnswer(MemberUnreachable):
    """A member's answer cannot be handed on: it is no HTTP, leads elsewhere, or refuses our own credentials."""


class MemberRefused(Exception):
    """A member's own rules forbid a request before its API server was asked; the text is for the caller."""


class MemberRequest(Struct, frozen=True):
    """A request for one member, in the name of a caller.

    `path` begins with a slash, is encoded as the caller sent it and includes the query. `headers` hold neither
    credentials, nor an identity, nor what concerns one connection only. `upgrade` names the protocol that the
    connection is to become (websocket, SPDY/3.1); empty for plain HTTP.
    """

    cluster: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    user: str
    groups: tuple[str, ...]
    upgrade: str = ""


class Exchange(Protocol):
    """What a member answers: its status and headers, then bytes as they come, in both directions after an upgrade."""

    status: int
    headers: tuple[tuple[str, str], ...]

    async def read(self) -> bytes:
        """The next bytes, at most CHUNK; empty at the end. Raises MemberUnreachable when it breaks off."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes after an upgrade; returns once there is space for more. Raises MemberUnreachable."""
        ...

    async def close(self) -> None:
        """End it, in whatever state it is."""
        ...


class MemberTransport(Protocol):
    """Carries requests to members of one kind."""

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request and return once the head of the answer came.

        Raises MemberUnreachable, or MemberRefused.
        """
        ...

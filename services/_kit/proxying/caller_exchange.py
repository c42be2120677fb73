"""The caller's side of an exchange: its body on the way to a member, and the member's answer on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from services._kit.proxying.member_exchange import CHUNK, Exchange, MemberBadAnswer, MemberUnreachable
from services._kit.proxying.switched_connection import SwitchedAnswer, join, of_request
from services._rules.proxying.header_rules import to_caller

_WITHOUT_BODY: Final = frozenset({204, 304})
_DIGITS: Final = 18
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Traffic:
    """Bytes of one exchange by direction."""

    def __init__(self) -> None:
        self.up = 0
        self.down = 0

    def count(self, up: int, down: int) -> None:
        """More bytes towards the member, and back."""
        self.up += up
        self.down += down


class CallerGone(ConnectionError):
    """The caller left before its request was sent whole."""


class BrokenAnswer(web.StreamResponse):
    """Stands for an answer that broke off: the end of its connection is all that can tell the caller.

    What is raised instead would be logged with its trace, for a thing that callers and members do every day.
    """

    def __init__(self, request: BaseRequest) -> None:
        super().__init__(status=499)
        if request.transport is not None:
            request.transport.abort()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Raise ConnectionResetError: there is no connection to prepare."""
        raise ConnectionResetError("the answer broke off")


class CallerBody:
    """The body of a caller's request, read as the member takes it; `exceeded` where it had more than `most` bytes."""

    def __init__(self, request: BaseRequest, most: int, traffic: Traffic) -> None:
        self._request = request
        self._most = most
        self._traffic = traffic
        self.exceeded = (request.content_length or 0) > most

    async def parts(self) -> AsyncIterator[bytes]:
        """The bytes; raises CallerGone, also where there are too many."""
        request = self._request
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            try:
                data = await request.content.read(CHUNK)
            except (aiohttp.ClientError, web.RequestPayloadError, OSError) as error:
                raise CallerGone(f"the request broke off: {error}") from error
            if not data:
                return
            self._traffic.up += len(data)
            if self._traffic.up > self._most:
                self.exceeded = True
                raise CallerGone("the request has too many bytes")
            yield data


async def hand_on(
    request: BaseRequest,
    exchange: Exchange,
    traffic: Traffic,
    *,
    prefix: str,
    upgrade: str = "",
    idle: float | None = None,
    watch: bool = False,
    extra: Mapping[str, str] | None = None,
) -> web.StreamResponse:
    """Send a member's answer to the caller as it comes, and both ways after a switch of the protocol.

    `prefix` is where the member begins in the caller's view: redirects within the member are led there. `idle` are the
    seconds that may pass without a byte. Raises MemberUnreachable and MemberBadAnswer before the answer has begun, and
    ConnectionError where it breaks off afterwards, but for a `watch` of JSON: its last event is an error that says why.
    """
    headers = list(to_caller(exchange.headers))
    headers += (extra or {}).items()
    if exchange.status == 101:
        if not upgrade:
            raise MemberBadAnswer("the member switched the protocol without having been asked to")
        switched = of_request(request, (("Connection", "Upgrade"), ("Upgrade", upgrade), *headers))
        await join(switched, exchange, traffic.count)
        return SwitchedAnswer()
    if not 200 <= exchange.status <= 599:
        raise MemberBadAnswer(f"the member answered with the code {exchange.status}")
    response = web.StreamResponse(status=exchange.status)
    for name, value in headers:
        if name.lower() == "location":
            if exchange.status in _REDIRECTS and (not value.startswith("/") or value.startswith(("//", "/\\"))):
                raise MemberBadAnswer("the member redirects the request to another host, which is not followed")
            value = f"{prefix}{value}" if value.startswith("/") else value
        response.headers.add(name, value)
    announced = _announced(response.headers.getall("Content-Length", []))
    if upgrade:
        # The connection was about to become another one: what follows on it is not read as a request.
        response.force_close()
    if request.method == "HEAD" or exchange.status in _WITHOUT_BODY:
        await response.prepare(request)
        await response.write_eof()
        return response
    if "Content-Length" not in response.headers:
        response.enable_chunked_encoding()
    told = b"\n"
    try:
        await response.prepare(request)
        while data := await _within(idle, exchange):
            traffic.down += len(data)
            if announced is not None and traffic.down > announced:
                # What is too much would be read as the next answer on this connection, which may be for another user.
                raise MemberBadAnswer("it has more bytes than its Content-Length says")
            await response.write(data)
            told = data
        if announced is not None and traffic.down != announced:
            raise MemberBadAnswer("it has fewer bytes than its Content-Length says")
        await response.write_eof()
    except (MemberUnreachable, TimeoutError) as error:
        if watch and told.endswith(b"\n") and _takes_events(response):
            await response.write(_last_event(str(error)))
            await response.write_eof()
            return response
        # The caller has to see that the answer is not complete.
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError(f"the answer of the member broke off: {error}") from error
    return response


def _takes_events(response: web.StreamResponse) -> bool:
    """Whether an answer is a stream of events as lines of JSON."""
    headers = response.headers
    as_json = headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json"
    plain = "Content-Encoding" not in headers and "Content-Length" not in headers
    return response.status == 200 and as_json and plain


def _last_event(why: str) -> bytes:
    """The event with which a watch ends that its member did not end."""
    status = {"status": "Failure", "message": why, "reason": "ServiceUnavailable", "code": 503}
    found = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}
    return msgspec.json.encode({"type": "ERROR", "object": found}) + b"\n"


def _announced(lengths: list[str]) -> int | None:
    """The bytes that an answer says it has; raises MemberBadAnswer for several answers to that, or a bad one."""
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isascii() or not lengths[0].isdigit() or len(lengths[0]) > _DIGITS:
        raise MemberBadAnswer("the Content-Length of the member's answer is none")
    return int(lengths[0])


async def _within(seconds: float | None, exchange: Exchange) -> bytes:
    async with asyncio.timeout(seconds):
        return await exchange.read()

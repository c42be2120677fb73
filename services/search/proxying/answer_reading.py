"""Reads answers of members within limits of time and bytes, in the name of a caller; refusals name the member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import msgspec

from services._kit.base.answer_limits import COUNTS, Limits
from services._kit.kube.answers.bodies import Buffer, Lines, TooLarge
from services._kit.kube.api import UNREADABLE, BadAnswer
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.view_ports import Caller

_AT_ONCE: Final = 64
"""Answers that are read at once, each up to the limit of bytes."""
_OF_ONE: Final = 4
"""Answers of one member among them: one that hangs leaves seats to the others."""
_HEADERS: Final = (("Accept", "application/json"), ("Accept-Encoding", "identity"))
_MOST_TEXT: Final = 2000
_LARGEST_STATUS: Final = 64 << 10


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


_status: Final = msgspec.json.Decoder(_Status)


class AnswerReader:
    """Sends reads to members and takes their answers in."""

    def __init__(self, transport: MemberTransport, limits: Limits) -> None:
        self._transport = transport
        self.limits = limits
        self._seats = asyncio.Semaphore(_AT_ONCE)
        self._seats_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def whole(self, cluster: str, path: str, query: Mapping[str, str], caller: Caller) -> bytes:
        """The body of an answer; raises ApiError for a refusal, and TooLarge where fewer objects may help."""
        own = self._seats_of.get(cluster)
        if own is None:
            own = self._seats_of[cluster] = asyncio.Semaphore(_OF_ONE)
        async with _named(cluster, self.limits.answer_seconds), own, self._seats:
            exchange = await self._open(cluster, path, query, caller)
            try:
                return await _body(exchange, self.limits.answer_bytes)
            finally:
                await exchange.close()

    async def _open(self, cluster: str, path: str, query: Mapping[str, str], caller: Caller) -> Exchange:
        """The answer once its head is there and is a success."""
        given = {name: value for name, value in query.items() if value}
        target = f"{path}?{urlencode(given)}" if given else path
        request = MemberRequest(cluster, "GET", target, _HEADERS, caller.user, caller.groups)
        exchange = await self._transport.open(request)
        try:
            if exchange.status != 200:
                raise _refusal(cluster, exchange.status, await _body(exchange, _LARGEST_STATUS))
            headers = {name.lower(): value for name, value in exchange.headers}
            if headers.get("content-encoding", "identity").lower() != "identity":
                raise BadAnswer("it is packed, which was not asked for")
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def stream(self, cluster: str, path: str, query: Mapping[str, str], caller: Caller) -> LineStream:
        """A watch that has begun; raises ApiError for one that does not begin."""
        async with _named(cluster, self.limits.first_byte_seconds):
            return LineStream(cluster, await self._open(cluster, path, query, caller), self.limits.object_bytes)


class LineStream:
    """The lines of a watch of one member; to be closed."""

    def __init__(self, cluster: str, exchange: Exchange, most: int) -> None:
        self.cluster = cluster
        self._exchange = exchange
        self._lines = Lines(most)

    async def lines(self) -> list[bytes]:
        """The next lines; none at the end. Raises ApiError where it breaks off, and TooLarge."""
        try:
            while data := await self._exchange.read():
                found = self._lines.feed(data)
                if found:
                    return found
        except MemberUnreachable as error:
            raise _silent(self.cluster, error) from error
        return []

    async def close(self) -> None:
        """End it."""
        await self._exchange.close()


@asynccontextmanager
async def _named(cluster: str, seconds: float) -> AsyncIterator[None]:
    """Give the work within so many seconds, and raise ApiError for what fails of it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TooLarge:
        raise
    except BadAnswer as error:
        raise bad_answer(cluster, error) from error
    except MemberRefused as error:
        raise ApiError(403, "Forbidden", _about(cluster, error), {}) from error
    except MemberBadAnswer as error:
        COUNTS.bad_answers += 1
        raise ApiError(502, "BadGateway", _about(cluster, error), {}) from error
    except MemberUnreachable as error:
        raise _silent(cluster, error) from error
    except TimeoutError as error:
        raise ApiError(504, "Timeout", f"cluster {cluster}: no answer within {seconds:g} s", {}) from error


def bad_answer(cluster: str, error: BadAnswer) -> ApiError:
    """The error for an answer that cannot be used."""
    COUNTS.bad_answers += 1
    return ApiError(502, "BadGateway", f"cluster {cluster}: the answer cannot be used: {error}"[:_MOST_TEXT], {})


def _silent(cluster: str, error: MemberUnreachable) -> ApiError:
    return ApiError(503, "ServiceUnavailable", _about(cluster, error), {"retryAfterSeconds": 1}, {"Retry-After": "1"})


def _about(cluster: str, error: Exception) -> str:
    """What happened, with the name of the cluster in it."""
    text, name = str(error), f"cluster {cluster}"
    return (text if name in text else f"{name}: {text}")[:_MOST_TEXT]


def _refusal(cluster: str, code: int, body: bytes) -> ApiError:
    """What a member answers that is no success, as the client gets it."""
    try:
        found = _status.decode(body)
    except UNREADABLE:
        found = _Status(message=body[:300].decode(errors="replace").strip())
    text = f"cluster {cluster}: {found.message or found.reason or f'HTTP {code}'}"[:_MOST_TEXT]
    if code == 401:
        # The client's own credentials are good; those for the member are not.
        return ApiError(502, "BadGateway", f"{text} (credentials for the member; join it again)", {})
    if not 400 <= code <= 599:
        return ApiError(502, "BadGateway", f"cluster {cluster}: HTTP {code} where 200 was expected", {})
    return ApiError(code, found.reason[:100], text, found.details)


async def _body(exchange: Exchange, most: int) -> bytes:
    found = Buffer()
    while data := await exchange.read():
        found.add(data)
        if found.size > most:
            raise TooLarge(f"it has more than {most} bytes")
    return found.whole()

"""Carries a request as it is to one API server, and its answer back: in the caller's name, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from aiohttp.web_request import BaseRequest
from msgspec import Struct
from msgspec.structs import replace

from services._kit.proxying.caller_exchange import CallerBody, CallerGone, Traffic, hand_on
from services._kit.proxying.member_exchange import (
    CHUNK,
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services._rules.proxying.header_rules import to_member, upgrade_of
from services._rules.proxying.inner_requests import lasts
from services._rules.proxying.sent_back import LARGEST_BODY
from services.apiserver.core.status_errors import ApiError, bad_request
from services.search.proxying.view_ports import Caller
from services.search.union.resource_names import Asked

ANSWER_SECONDS: Final = 30.0
"""Until an answer begins, and between two parts of it, where it is not one that lasts."""


class Way(Struct, frozen=True):
    """Where a request goes: `place` for messages, `prefix` is the path of the proxy, for redirects within it.

    `rewrite` changes a body that has to be known as a whole; it may raise ApiError.
    """

    transport: MemberTransport
    cluster: str
    place: str
    prefix: str
    rewrite: Callable[[bytes], bytes] | None = None

    def about(self, error: Exception) -> str:
        """What happened, with the place in it."""
        text = str(error)
        return text if self.place in text else f"{self.place}: {text}"


async def carry(http: BaseRequest, asked: Asked, caller: Caller, way: Way) -> web.StreamResponse:
    """Send a request on and hand its answer on; raises ApiError before the answer has begun."""
    given = list(http.headers.items())
    upgrade = upgrade_of(given)
    if upgrade and http.can_read_body:
        raise bad_request("a request that switches the protocol has no body")
    traffic = Traffic()
    body = CallerBody(http, LARGEST_BODY, traffic) if http.can_read_body else None
    if body is not None and body.exceeded:
        raise _too_large()
    raw_query = http.rel_url.raw_query_string
    path = f"{asked.path}?{raw_query}" if raw_query else asked.path
    request = MemberRequest(way.cluster, http.method, path, to_member(given), caller.user, caller.groups, upgrade)
    lasting = lasts(http.method, asked.path, asked.query, upgrade)
    seconds = None if lasting else ANSWER_SECONDS
    try:
        async with asyncio.timeout(seconds):
            exchange = await _opened(request, body, way)
    except (CallerGone, ApiError) as error:
        if body is not None and body.exceeded:
            raise _too_large() from error
        raise
    except TimeoutError as error:
        raise ApiError(504, "Timeout", f"{way.place} did not begin to answer within {seconds:g} s", {}) from error
    try:
        return await hand_on(http, exchange, traffic, prefix=way.prefix, upgrade=upgrade, idle=seconds)
    except MemberUnreachable as error:
        raise ApiError(502, "BadGateway", way.about(error), {}) from error
    finally:
        await exchange.close()


async def _opened(request: MemberRequest, body: CallerBody | None, way: Way) -> Exchange:
    """The exchange once the head of its answer is there; raises ApiError that names the place."""
    parts = body.parts() if body is not None else None
    if parts is not None and way.rewrite is not None:
        whole = way.rewrite(b"".join([part async for part in parts]))
        headers = [(name, value) for name, value in request.headers if name.lower() != "content-length"]
        request = replace(request, headers=(*headers, ("Content-Length", str(len(whole)))))
        parts = _pieces(whole)
    try:
        return await way.transport.open(request, parts)
    except MemberRefused as error:
        raise ApiError(403, "Forbidden", way.about(error), {}) from error
    except MemberBadAnswer as error:
        raise ApiError(502, "BadGateway", way.about(error), {}) from error
    except MemberUnreachable as error:
        details = {"retryAfterSeconds": 1}
        raise ApiError(503, "ServiceUnavailable", way.about(error), details, {"Retry-After": "1"}) from error


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for place in range(0, len(body), CHUNK):
        yield body[place : place + CHUNK]


def _too_large() -> ApiError:
    text = f"Request entity too large: limit is {LARGEST_BODY} bytes"
    return ApiError(413, "RequestEntityTooLarge", text)

"""Proxies a request to another server: the headers on the way there, and the answer on the way back."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.web_request import BaseRequest
from multidict import CIMultiDict

from services._rules.proxying.header_rules import HOP_BY_HOP

LOOK_SECONDS: Final = 5.0
"""How often a stream on which nothing happens is asked whether its reader is still there."""
_DROPPED: Final = HOP_BY_HOP | {"authorization", "host"}
_WITHOUT_BODY: Final = frozenset({204, 304})


def forwarded(request: BaseRequest, *dropped: str) -> CIMultiDict[str]:
    """Headers of a request to send on: without credentials, and without those that begin with one of `dropped`."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in request.headers.items():
        low = name.lower()
        if low not in _DROPPED and not low.startswith(("x-remote-", *dropped)):
            headers.add(name, value)
    headers.add("X-Forwarded-For", request.remote or "")
    return headers


async def relay(request: BaseRequest, answer: aiohttp.ClientResponse, *, closing: bool = False) -> web.StreamResponse:
    """Send an answer on as it comes; raises nothing once it has begun. `closing`: it is the last on its connection."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    if closing:
        response.force_close()
    for name, value in answer.headers.items():
        if name.lower() not in HOP_BY_HOP:
            response.headers.add(name, value)
    if request.method != "HEAD" and answer.status not in _WITHOUT_BODY and "Content-Length" not in answer.headers:
        response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        while not answer.content.at_eof():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    part = await answer.content.readany()
            except TimeoutError:
                if request.transport is None or request.transport.is_closing():
                    break
                continue
            if part:
                await response.write(part)
        await response.write_eof()
    except (ConnectionError, aiohttp.ClientError):
        # The answer has begun; all that is left is to end it early.
        if request.transport is not None:
            request.transport.abort()
    return response

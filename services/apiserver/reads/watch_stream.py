"""Sends a watch to its client, chunk by chunk."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

from services.apiserver.reads.responses import View


def watch_response(view: View) -> web.StreamResponse:
    """The answer to a watch before its first chunk."""
    response = web.StreamResponse(status=200)
    media = "application/json"
    response.headers["Content-Type"] = f"{media};stream=watch" if view.form.view else media
    response.enable_chunked_encoding()
    return response


async def send_watch(
    http: BaseRequest, response: web.StreamResponse, frames: AsyncIterator[bytes], tasks: set[asyncio.Task[Any]]
) -> web.StreamResponse:
    """Send the frames until they end or the client goes away; the task is among `tasks` meanwhile."""
    task = asyncio.current_task()
    assert task is not None
    tasks.add(task)
    try:
        await response.prepare(http)
        async for chunk in frames:
            if http.transport is None or http.transport.is_closing():
                break
            if chunk:
                await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        pass
    finally:
        tasks.discard(task)
    return response

"""An HTTP endpoint that answers every request as a test says, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from services._kit.kube.client import KubeClient


@asynccontextmanager
async def served(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL of an endpoint whose every path has this handler, as long as the block lasts."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[KubeClient]:
    """A client of an endpoint whose every path has this handler, as long as the block lasts."""
    async with served(handler) as url:
        client = KubeClient(url, ssl_context=None, headers={})
        try:
            yield client
        finally:
            await client.close()

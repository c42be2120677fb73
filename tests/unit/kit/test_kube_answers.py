"""What an API server answers that is neither an object nor a refusal of Kubernetes is told for what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from services._kit.kube import ApiError, KubeClient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def endpoint(handler: Handler) -> AsyncIterator[KubeClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    client = KubeClient(f"http://{host}:{port}", ssl_context=None, headers={})
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_an_endpoint_that_is_elsewhere_is_told_and_nobody_follows(method: str) -> None:
    seen: list[str] = []

    async def moved(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=307, headers={"Location": "https://elsewhere.example/x"})

    async with endpoint(moved) as client:
        with pytest.raises(ApiError, match=r"elsewhere, at https://elsewhere.example/x; name that address") as told:
            await client.request(method, "/x", body=None if method == "GET" else b"{}")
    assert told.value.status == 307
    assert seen == ["/x"]


async def test_a_refusal_in_other_words_is_quoted_and_its_wait_is_kept() -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429, text="slow down, please", headers={"Retry-After": "7"})

    async with endpoint(busy) as client:
        with pytest.raises(ApiError, match="slow down, please") as told:
            await client.get("/x")
    assert (told.value.status, told.value.retry_after) == (429, 7.0)

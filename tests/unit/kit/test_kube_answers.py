"""What an API server answers that is neither an object nor a refusal of Kubernetes is told for what it is."""

from __future__ import annotations

import pytest
from aiohttp import web

from services._kit.kube.client import ApiError, BadAnswer
from tests.support.endpoints import answering


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_redirect_is_reported_and_not_followed(method: str) -> None:
    seen: list[str] = []

    async def moved(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=307, headers={"Location": "https://elsewhere.example/x"})

    async with answering(moved) as client:
        with pytest.raises(BadAnswer, match=r"elsewhere, at https://elsewhere.example/x; name that address .*HTTP 307"):
            await client.request(method, "/x", body=None if method == "GET" else b"{}")
    assert seen == ["/x"]


async def test_a_refusal_in_other_words_is_quoted_and_its_wait_is_kept() -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429, text="slow down, please", headers={"Retry-After": "7"})

    async with answering(busy) as client:
        with pytest.raises(ApiError, match="slow down, please") as told:
            await client.get("/x")
    assert (told.value.status, told.value.retry_after) == (429, 7.0)


@pytest.mark.parametrize(("said", "kept"), [("1e300", 60.0), ("inf", 60.0), ("nan", 0.0), ("-5", 0.0), ("soon", 0.0)])
async def test_no_wait_lasts_for_good(said: str, kept: float) -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=503, text="x" * 100_000, headers={"Retry-After": said})

    async with answering(busy) as client:
        with pytest.raises(ApiError) as told:
            await client.get("/x")
    assert told.value.retry_after == kept
    assert len(str(told.value)) < 5000


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"message":"\xff"}', b'{"message":7}', b"null"])
async def test_a_refusal_that_cannot_be_read_is_one_nevertheless(body: bytes) -> None:
    async def refusing(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500, body=body)

    async with answering(refusing) as client:
        with pytest.raises(ApiError) as told:
            await client.get("/x")
    assert told.value.status == 500

"""What webhooks and aggregated servers answer is read within limits, is led nowhere else, and has the right types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from services._kit.base import answer_limits as limits
from services._kit.base.answer_limits import Limits
from services._kit.kube.api import BadAnswer
from services.apiserver.admission.webhook_call import CallFailed, WebhookTarget, send
from services.apiserver.controllers.aggregation.aggregated_proxy import Backend
from services.apiserver.controllers.aggregation.apiservices import Aggregator
from services.apiserver.core.outbound import Outbound
from tests.support.endpoints import answering
from tests.support.hostile_server import MODES, HostileServer, hostile_server

REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "1"}}
NOT_FOR_THESE = {"silent_watch", "endless_pages", "repeated_continue", "invented_objects"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_in_force", Limits(answer_bytes=1 << 20, silence_seconds=2.0))


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[HostileServer]:
    async with hostile_server() as made:
        yield made


async def call(session: aiohttp.ClientSession, url: str, seconds: int = 30) -> Any:
    async with asyncio.timeout(60):
        return await send(session, WebhookTarget({"url": url}), REVIEW, seconds, lambda *_: None)


@pytest.mark.parametrize("mode", sorted(set(MODES) - NOT_FOR_THESE))
async def test_a_hostile_webhook_is_a_failed_call(
    session: aiohttp.ClientSession, server: HostileServer, mode: str
) -> None:
    server.turn(mode)
    with pytest.raises(CallFailed):
        await call(session, server.url, 2)
    assert server.sent < 64 << 20


async def test_a_webhook_leads_nowhere_else(session: aiohttp.ClientSession, server: HostileServer) -> None:
    async with hostile_server() as elsewhere:
        server.redirect_to = elsewhere.url
        server.turn("redirect")
        with pytest.raises(CallFailed, match="302"):
            await call(session, server.url)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "response",
    [
        {"allowed": "yes"},
        {"allowed": False, "status": {"code": "x"}},
        {"allowed": True, "warnings": "many"},
        {"allowed": True, "patch": [1]},
        {"allowed": True, "uid": 7},
    ],
)
async def test_webhook_response_of_wrong_types_is_a_failed_call(session: aiohttp.ClientSession, response: Any) -> None:
    async def answer(_: web.Request) -> web.Response:
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return web.Response(body=msgspec.json.encode(body))

    async with answering(answer) as client:
        with pytest.raises(CallFailed, match="wrong types"):
            await call(session, client.server)


@pytest.mark.parametrize("mode", sorted(set(MODES) - NOT_FOR_THESE - {"huge_objects"}))
async def test_a_hostile_aggregated_server_does_not_get_into_discovery(
    session: aiohttp.ClientSession, server: HostileServer, mode: str
) -> None:
    nothing: Any = None
    aggregator = Aggregator(nothing, {}, lambda _: None, Outbound())
    aggregator._sessions[False] = session
    backend = Backend("v1.x", {})
    backend.url = server.url
    server.turn(mode)
    async with asyncio.timeout(60):
        with pytest.raises((aiohttp.ClientError, BadAnswer, OSError)):
            await aggregator._check(backend, ("x", "v1"))
    assert backend.resources is None

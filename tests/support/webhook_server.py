"""A webhook for interpretation on a real https port, with a certificate authority of its own; answers as it is told."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import json

from services.apiserver.auth.certificate_authority import Authority

Request = dict[str, Any]
Answer = Callable[[Request], dict[str, Any] | web.Response | Awaitable[dict[str, Any] | web.Response]]


class WebhookServer:
    """`answer` gets the request of a context and gives the members of the response, or any HTTP response."""

    def __init__(self, port: int, authority: Authority) -> None:
        self.port = port
        self.ca_bundle = b64encode(authority.ca_pem).decode()
        self.requests: list[Request] = []
        self.connections: set[object] = set()
        self.answer: Answer = lambda request: {}
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}/interpret"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one context."""
        self.connections.add(request.transport)
        context = json.decode(await request.read())
        asked: Request = context["request"]
        self.requests.append(asked)
        async with self._arrived:
            self._arrived.notify_all()
        told = self.answer(asked)
        if not isinstance(told, dict | web.Response):
            told = await told
        if isinstance(told, web.Response):
            return told
        context["response"] = {"uid": asked["uid"], "successful": True, **told}
        del context["request"]
        return web.Response(body=json.encode(context), content_type="application/json")

    async def until(self, condition: Callable[[Sequence[Request]], bool]) -> None:
        """Return once the requests so far fulfil a condition."""
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(lambda: condition(self.requests))

    def configuration(self, name: str = "c", kinds: Sequence[str] = ("Widget",), **fields: Any) -> dict[str, Any]:
        """A ResourceInterpreterWebhookConfiguration that names this server for kinds of example.io/v1."""
        rule = {"operations": ["*"], "apiGroups": ["example.io"], "apiVersions": ["v1"], "kinds": list(kinds)}
        hook = {
            "name": "w.example.io",
            "clientConfig": {"url": self.url, "caBundle": self.ca_bundle},
            "rules": [rule],
            "interpreterContextVersions": ["v1alpha1"],
            **fields,
        }
        return {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }


@asynccontextmanager
async def webhook_server(directory: Path, *names: str) -> AsyncIterator[WebhookServer]:
    """A running server whose certificate carries 127.0.0.1, or other names."""
    authority = Authority(directory)
    authority.load()
    certificate, key = authority.issue("webhook", (), list(names) or ["127.0.0.1"])
    pair = directory / "pair.pem"
    pair.write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    app = web.Application(client_max_size=64 << 20)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    server: WebhookServer | None = None

    async def handle(request: web.Request) -> web.StreamResponse:
        assert server is not None
        return await server.handle(request)

    app.router.add_post("/{path:.*}", handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server = WebhookServer(runner.addresses[0][1], authority)
    try:
        yield server
    finally:
        await runner.cleanup()

"""A server over the memory store with every built-in kind, and a small HTTP client for it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore


class Client:
    """Requests as one user; `last` is the latest response."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json", **headers: str
    ) -> tuple[int, Any]:
        sent = {"Content-Type": media} if body is not None else {}
        sent.update({k.replace("_", "-"): v for k, v in headers.items()})
        kwargs: dict[str, Any] = {"json": body} if not isinstance(body, str | bytes) else {"data": body}
        if body is None:
            kwargs = {}
        async with self.session.request(method, self.server.url + path, headers=sent, **kwargs) as response:
            raw = await response.read()
            try:
                return response.status, await response.json(content_type=None)
            except ValueError:
                return response.status, raw.decode()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    tokens = {"admin": Identity("admin", "admin", ("system:masters",)), "jane": Identity("jane", "u1", ("devs",))}
    settings = Settings(data_dir=tmp_path / "data", tokens=tokens, tls=False, audit_log=tmp_path / "audit.jsonl")
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session:
        yield Client(server, session)

"""A server one of whose tasks has failed is not ready, and lives."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from services._kit.concurrency import supervision
from services._kit.concurrency.supervision import Supervisor, supervise
from services._kit.kube.client import ApiError
from services.apiserver import server
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.support.serving import api_server
from tests.support.waiting import eventually


async def test_a_failed_task_is_a_reason_not_to_be_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "STEADY_SECONDS", 0.02)
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.01)
    failing = True

    async def collects() -> None:
        if failing:
            raise KeyError("ownerReferences")
        await asyncio.Event().wait()

    async with AsyncExitStack() as stack:
        supervisor = await stack.enter_async_context(Supervisor())
        client, _, _ = await api_server(stack, tmp_path, builtin_registry(), "root")
        assert await client.request("GET", "/readyz", accept="*/*") == b"ok"
        supervise("queue:garbage", collects)
        await eventually(supervisor.trouble)
        with pytest.raises(ApiError) as refused:
            await client.request("GET", "/readyz", accept="*/*")
        assert "[-]tasks failed: one failed and is started again" in str(refused.value)
        assert await client.request("GET", "/livez", accept="*/*") == b"ok"
        failing = False
        await eventually(lambda: not supervisor.trouble())
        assert await client.request("GET", "/readyz", accept="*/*") == b"ok"


async def test_a_server_ends_although_its_log_takes_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.05)
    store = MemoryStore()
    monkeypatch.setattr(store, "stop", asyncio.Event().wait)
    made = ApiServer(store, builtin_registry(), Settings(data_dir=tmp_path))
    await made.start("127.0.0.1", 0)
    async with asyncio.timeout(60):
        await made.stop()

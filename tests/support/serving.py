"""An API server with its objects in memory and services beside it, in one process, until an exit stack ends them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from services._kit.kube.client import KubeClient
from services._kit.runtime.service_wiring import serve
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.registry import Registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore


async def api_server(
    stack: AsyncExitStack, directory: Path, registry: Registry, token: str
) -> tuple[KubeClient, ApiServer, Path]:
    """A started server without controllers, a client of it, and its kubeconfig."""
    tokens = {token: Identity("admin", "admin", ("system:masters",))}
    server = ApiServer(
        MemoryStore(), registry, Settings(data_dir=directory, tokens=tokens, tls=False, controllers=False)
    )
    await server.start()
    stack.push_async_callback(server.stop)
    kubeconfig = directory / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    client = await KubeClient.from_kubeconfig(kubeconfig)
    stack.push_async_callback(client.close)
    return client, server, kubeconfig


async def run(stack: AsyncExitStack, service: Any, settings: Any) -> Any:
    """One service, leading from now on and until the end; its runner."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(service, settings, stop, ready.set_result))

    async def end() -> None:
        stop.set()
        await task

    stack.push_async_callback(end)
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    return ready.result()

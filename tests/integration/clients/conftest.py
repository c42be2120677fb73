"""An API server as an installation starts it, with TLS, RBAC and controllers, and programs of clients for it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore

PROGRAMS = Path(__file__).parent / "programs"
Run = Callable[..., Awaitable[str]]


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """The administrator's kubeconfig of a running server."""
    settings = Settings(data_dir=tmp_path / "data", authorization="RBAC")
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    yield path
    await server.stop()


@pytest.fixture
def run(kubeconfig: Path) -> Run:
    """Runs a program to its end; what it printed. It has to end with 0."""

    async def found(*command: str, expected: int = 0) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
        environment["KUBECONFIG"] = str(kubeconfig)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(100):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == expected, f"{out.decode()}\n{err.decode()}"
        return out.decode()

    return found


@pytest.fixture
def program(run: Run) -> Run:
    """Runs one of the programs beside the tests."""

    async def found(name: str) -> str:
        return await run(sys.executable, "-W", "ignore", str(PROGRAMS / f"{name}.py"))

    return found

"""Simulated members in this process, reached over HTTPS with kubectl and a Kubernetes client."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from schemas.manifest import Manifest
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings


class Member:
    """One running member and ways to talk to it."""

    def __init__(self, running: Running) -> None:
        self.running = running

    async def kubectl(self, *arguments: str, stdin: str | None = None, fails: bool = False) -> str:
        """Run kubectl; returns its output, or with ``fails`` its error."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            "--kubeconfig",
            str(self.running.kubeconfig),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate((stdin or "").encode())
        if fails:
            assert process.returncode, f"kubectl {arguments} worked: {out.decode()}"
            return err.decode()
        assert process.returncode == 0, f"kubectl {arguments}: {err.decode()}"
        return out.decode()

    async def get(self, *arguments: str) -> Manifest:
        """Return an object or a list as kubectl gets it."""
        found: Manifest = json.loads(await self.kubectl("get", *arguments, "-o", "json"))
        return found

    async def apply(self, *manifests: Manifest) -> None:
        """Apply manifests."""
        await self.kubectl(
            "apply",
            "--validate=false",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
        )

    async def until(self, holds: Callable[[Manifest], bool], *arguments: str) -> Manifest:
        """Get until something holds; fails after 30 s with what was there last."""
        found: Manifest = {}
        try:
            async with asyncio.timeout(60):
                while True:
                    found = await self.get(*arguments)
                    if holds(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(json.dumps(found, indent=1)) from None

    async def fault(self, path: str, body: Any, token: str | None = None) -> tuple[int, Any]:
        """Post to the fault port; returns code and answer."""
        headers = {"Authorization": f"Bearer {self.running.token if token is None else token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.running.admin_url + path, json=body, headers=headers) as answer,
        ):
            return answer.status, await answer.json()


@asynccontextmanager
async def run(settings: MemberSettings) -> AsyncIterator[Member]:
    """Run a member as long as the block lasts."""
    stop = asyncio.Event()
    ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(run_member(settings, ready.set_result, stop))
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    try:
        if not ready.done():
            await task
        yield Member(await ready)
    finally:
        stop.set()
        await task


@pytest.fixture
def run_member_with(tmp_path: Path) -> Any:
    """Run a member with some settings; kubectl is needed for most of what tests do with it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")

    def start(**settings: Any) -> Any:
        return run(MemberSettings(**{"name": "m1", "nodes": 2, "data_dir": tmp_path / "m1", **settings}))

    return start


@pytest.fixture
async def member(run_member_with: Any) -> AsyncIterator[Member]:
    """A member with two nodes of 8 cores, in memory."""
    async with run_member_with() as found:
        yield found


def _web(replicas: int = 2, cpu: str = "100m", image: str = "web:1", name: str = "web") -> Manifest:
    labels = {"app": name}
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@pytest.fixture
def web() -> Any:
    """Make a Deployment manifest."""
    return _web

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
from tests.support.waiting import eventually

GROUPS = {
    "/apis/apps/v1": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
}
"""Where resources are that are not below /api/v1."""
ROOTS = {resource: root for root, resources in GROUPS.items() for resource in resources}
NO_NAMESPACE = ("namespaces", "nodes")


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

    async def get(self, kind: str, name: str = "", *, namespace: str = "default", selector: str = "") -> Manifest:
        """One object, empty when there is none of this name, or a list of all; read without a process.

        Several kinds have commas between them.
        """
        items: list[Manifest] = []
        async with self._session() as session:
            for one in kind.split(","):
                resource = one if one.endswith("s") else f"{one}s"
                inside = "" if resource in NO_NAMESPACE else f"/namespaces/{namespace}"
                url = f"{self.running.url}{ROOTS.get(resource, '/api/v1')}{inside}/{resource}"
                query = {"labelSelector": selector} if selector else {}
                async with session.get(f"{url}/{name}" if name else url, params=query, ssl=False) as answer:
                    found: Manifest = await answer.json(content_type=None)
                    if name:
                        return found if answer.status == 200 else {}
                    assert answer.status == 200, found
                    items += found["items"]
        return {"items": items}

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.running.token}"})

    async def apply(self, *manifests: Manifest) -> None:
        """Apply manifests."""
        await self.kubectl(
            "apply",
            "--validate=false",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
        )

    async def create(self, *manifests: Manifest) -> None:
        """Create objects without a process; those with a namespace are of a kind that has one."""
        async with self._session() as session:
            for manifest in manifests:
                version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace", "")
                root = f"/apis/{version}" if "/" in version else f"/api/{version}"
                place = f"{root}/namespaces/{namespace}" if namespace else root
                url = f"{self.running.url}{place}/{manifest['kind'].lower()}s"
                async with session.post(url, json=manifest, ssl=False) as answer:
                    assert answer.status == 201, await answer.text()

    async def until(
        self,
        holds: Callable[[Manifest], bool],
        kind: str,
        name: str = "",
        *,
        namespace: str = "default",
        selector: str = "",
    ) -> Manifest:
        """Get until there is something for which a condition holds; fails with what was there last."""
        found: Manifest = {}

        async def look() -> bool:
            nonlocal found
            found = await self.get(kind, name, namespace=namespace, selector=selector)
            return bool(found) and holds(found)

        try:
            await eventually(look)
        except AssertionError:
            raise AssertionError(json.dumps(found, indent=1)) from None
        return found

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

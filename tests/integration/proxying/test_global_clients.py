"""kubectl and a client library use the global proxy as they use any API server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.search.union.provenance_marks import CACHED_FROM
from tests.support.view_world import PREFIX, ViewWorld, config_map, pod
from tests.support.waiting import PATIENCE

PROGRAMS = Path(__file__).parents[1] / "clients" / "programs"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Kubectl:
    """kubectl whose server is the global proxy."""

    def __init__(self, world: ViewWorld, home: Path) -> None:
        self._base = ("kubectl", "--server", world.url + PREFIX, "--cache-dir", str(home / "cache"))
        self._environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}

    async def _started(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._base, *arguments, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe
        )

    async def __call__(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Its output, also that for people where it fails."""
        process = await self._started(*arguments)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode == code, err.decode()
        return out.decode() + (err.decode() if code else "")

    @asynccontextmanager
    async def following(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """The output of a command that goes on until the end of the block."""
        process = await self._started(*arguments)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
            await process.communicate()


@pytest.fixture
def kubectl(world: ViewWorld, tmp_path: Path) -> Kubectl:
    home = tmp_path / "home"
    home.mkdir()
    return Kubectl(world, home)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@needs_kubectl
async def test_kubectl_gets_pods_of_all_clusters(world: ViewWorld, kubectl: Kubectl) -> None:
    await world.create("member1", pod("a", tier="web"))
    await world.create("member2", pod("b", "shop", tier="web"))
    found = rows(await kubectl("get", "pods", "-A"))
    assert found[0] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in found[1:]] == [["default", "a", "0/1", "Pending"], ["shop", "b", "0/1", "Pending"]]
    found = rows(await kubectl("get", "pods", "-A", "--chunk-size=1", "-l", "tier=web", "--no-headers"))
    assert [row[1] for row in found] == ["a", "b"]
    assert "nginx:1.27" in await kubectl("describe", "pod", "a")
    document = json.loads(await kubectl("get", "pod", "b", "-n", "shop", "-o", "json"))
    assert document["metadata"]["annotations"][CACHED_FROM] == "member2"


@needs_kubectl
async def test_kubectl_watches_all_clusters(world: ViewWorld, kubectl: Kubectl) -> None:
    await world.create("member1", pod("a"))
    async with kubectl.following("get", "pods", "-w", "--no-headers") as lines, asyncio.timeout(PATIENCE):
        assert (await lines.readline()).split()[0] == b"a"
        await world.create("member2", pod("b"))
        assert (await lines.readline()).split()[0] == b"b"


@needs_kubectl
async def test_kubectl_changes_objects_where_they_are(world: ViewWorld, kubectl: Kubectl) -> None:
    await world.create("member1", config_map("a", x="1"))
    await world.create("member2", config_map("b", x="1"))
    await kubectl("label", "configmap", "b", "tier=web")
    await kubectl("annotate", "configmap", "b", "note=1")
    await kubectl("patch", "configmap", "b", "-p", '{"data":{"x":"2"}}')
    document = json.loads(await kubectl("get", "configmap", "b", "-o", "json"))
    document["data"]["y"] = "3"
    await kubectl("replace", "-f", "-", stdin=json.dumps(document))
    stored = await world.members["member2"].client.get("/api/v1/namespaces/default/configmaps/b")
    assert stored["data"] == {"x": "2", "y": "3"}
    assert stored["metadata"]["labels"] == {"tier": "web"}
    assert stored["metadata"]["annotations"] == {"note": "1"}
    assert "object has been modified" in await kubectl("replace", "-f", "-", stdin=json.dumps(document), code=1)
    await kubectl("delete", "configmap", "b")
    assert "not found" in await kubectl("get", "configmap", "b", code=1)
    assert "a" in await kubectl("get", "configmaps")


@needs_kubectl
async def test_kubectl_edits_an_object(world: ViewWorld, kubectl: Kubectl, tmp_path: Path) -> None:
    await world.create("member2", config_map("a", x="old"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/x: old/x: new/" "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    kubectl._environment["KUBE_EDITOR"] = str(editor)
    assert "edited" in await kubectl("edit", "configmap", "a")
    stored = await world.members["member2"].client.get("/api/v1/namespaces/default/configmaps/a")
    assert stored["data"] == {"x": "new"}
    assert CACHED_FROM not in json.dumps(stored)


@needs_kubectl
async def test_kubectl_says_why_it_was_refused(world: ViewWorld, kubectl: Kubectl) -> None:
    for cluster in ("member1", "member2"):
        await world.create(cluster, pod("a"))
    assert "ambiguous objects in clusters [member1, member2]" in await kubectl("get", "pod", "a", code=1)
    assert "ambiguous" in await kubectl("logs", "a", code=1)
    created = await kubectl("create", "configmap", "x", "--from-literal=a=b", code=1)
    assert "create is not supported" in created


@needs_kubectl
async def test_kubectl_finds_the_kinds_of_the_control_plane(world: ViewWorld, kubectl: Kubectl) -> None:
    assert "deployments" in await kubectl("api-resources")
    assert "metadata" in await kubectl("explain", "pod")
    await kubectl("create", "secret", "generic", "here", "--from-literal=a=b")
    assert (await world.control.get("/api/v1/namespaces/default/secrets/here"))["metadata"]["name"] == "here"


async def test_a_client_library_reads_and_writes(world: ViewWorld, tmp_path: Path) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    await world.create("member2", config_map("m", x="1"))
    cluster, context = {"server": world.url + PREFIX}, {"cluster": "view", "user": "reader"}
    kubeconfig = tmp_path / "config"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "view",
        "clusters": [{"name": "view", "cluster": cluster}],
        "contexts": [{"name": "view", "context": context}],
        "users": [{"name": "reader", "user": {}}],
    }
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAMS / "global_view_client.py"),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert out.decode().strip().endswith("done"), out.decode()

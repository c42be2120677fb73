"""An installation that is lost with its log and its control plane comes back from one file."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from schemas.manifest import Manifest
from services._kit.kube.api import WatchEvent
from services._kit.kube.client import ApiError, KubeClient
from services.cli.common.layout import CONTROL
from services.cli.common.logbook import log_access
from services.cli.log.verify import verify
from tests.e2e.fleet import Fleet
from tests.integration.restore.fleets import (
    DEPLOYMENTS,
    MEMBERS,
    POLICIES,
    POLICY,
    SECRETS,
    Members,
    deployment,
    members,
    scale,
)
from tests.support.commands import run_command
from tests.support.waiting import comes_to

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
COMMAND = "fleetlog"


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[Members]:
    async with members(tmp_path / "members") as made:
        yield made


def secret(password: str) -> Manifest:
    data = {"password": base64.b64encode(password.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}, "data": data}


async def fleetlog(*arguments: str) -> str:
    """What a command says; fails where it does."""
    done = await asyncio.to_thread(run_command, COMMAND, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


async def refused(*arguments: str) -> str:
    """What a command complains of."""
    done = await asyncio.to_thread(run_command, COMMAND, *arguments)
    assert done.returncode == 1, done.stdout
    return done.stderr


async def control_of(fleet: Fleet) -> KubeClient:
    return await KubeClient.from_kubeconfig(fleet.layout.kubeconfig(CONTROL))


async def uid_of(client: KubeClient, path: str) -> str:
    return str((await client.get(path))["metadata"]["uid"])


async def test_an_installation_comes_back_from_its_backup(outside: Members, tmp_path: Path) -> None:
    attached = [f"--member={name}={path}" for name, path in outside.kubeconfigs.items()]
    first = Fleet(tmp_path / "first", ["--members", "0", *attached])
    file, words = tmp_path / "monday.backup", tmp_path / "passphrase"
    words.write_text("correct horse battery\n")
    web, key = f"{DEPLOYMENTS}/web", f"{SECRETS}/key"
    await asyncio.to_thread(first.start)
    try:
        control = await control_of(first)
        await control.create(POLICIES, POLICY)
        await control.create(DEPLOYMENTS, deployment("web", 6))
        await control.create(DEPLOYMENTS, deployment("gone", 1))
        await control.create(SECRETS, secret("of monday"))
        await comes_to("web", lambda: outside.replicas("web"), dict.fromkeys(MEMBERS, 6))
        await comes_to("gone", lambda: outside.replicas("gone"), dict.fromkeys(MEMBERS, 1))
        await comes_to("key", lambda: held(outside, "key"), set(MEMBERS))
        await control.delete(f"{DEPLOYMENTS}/gone")
        await comes_to("gone", lambda: outside.replicas("gone"), {})
        uids = {path: await uid_of(control, path) for path in (web, key)}
        assert "needs a passphrase" in await refused("backup", str(file), "--dir", str(first.layout.directory))
        assert not file.exists()
        told = await fleetlog(
            "backup", str(file), "--dir", str(first.layout.directory), "--passphrase-file", str(words)
        )
        assert "of KEYS" in told
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        await control.create(DEPLOYMENTS, deployment("late", 4))
        await comes_to("late", lambda: outside.replicas("late"), dict.fromkeys(MEMBERS, 4))
        version = str((await control.get(web))["metadata"]["resourceVersion"])
        await control.close()
    finally:
        await asyncio.to_thread(first.stop)
    await asyncio.to_thread(shutil.rmtree, first.layout.directory)
    before = await outside.uids()

    second = tmp_path / "second"
    wrong = tmp_path / "wrong"
    wrong.write_text("another passphrase\n")
    complaint = await refused("restore", "backup", str(file), "--dir", str(second), "--passphrase-file", str(wrong))
    assert "does not open with this passphrase" in complaint
    assert not second.exists()
    assert "`fleetlog restore backup" in await refused("log", "import", str(file), "--nats", "nats://127.0.0.1:1")
    await fleetlog("restore", "backup", str(file), "--dir", str(second), "--passphrase-file", str(words))
    complaint = await refused("restore", "backup", str(file), "--dir", str(second), "--passphrase-file", str(words))
    assert "holds an installation" in complaint
    restored = Fleet(second, ["--members", "0", *attached])
    async with outside.samplers() as samplers:
        await asyncio.to_thread(restored.start)
        try:
            control = await control_of(restored)
            assert {path: await uid_of(control, path) for path in (web, key)} == uids
            assert (await control.get(key))["data"] == secret("of monday")["data"]
            with pytest.raises(ApiError) as missing:
                await control.get(f"{DEPLOYMENTS}/gone")
            assert missing.value.status == 404
            # Who watched the lost control plane has to list again.
            event = await first_change(control, version)
            assert event.type == "ERROR"
            assert msgspec.json.decode(event.object)["code"] == 410
            # Delivery goes on once everything was compared, and only what is asked for now is done.
            await scale(control, "web", 5)
            await comes_to("web", lambda: outside.replicas("web"), dict.fromkeys(MEMBERS, 5))
            changed = secret("of tuesday")
            await control.patch(key, {"data": changed["data"]})
            await comes_to("key", lambda: passwords(outside), {changed["data"]["password"]})
            assert await outside.uids() == before
            for sampler in samplers.values():
                assert {(name, replicas) for _, name, replicas, _ in sampler.states} <= {
                    ("web", 6),
                    ("web", 5),
                    ("late", 4),
                }
                assert not [state for state in sampler.states if state[0] == "DELETED"]
            assert await verify(log_access(second)) == 0
            await control.close()
        finally:
            await asyncio.to_thread(restored.stop)
    assert restored.failures() == []


async def first_change(control: KubeClient, version: str) -> WatchEvent:
    """The first that a watch says from a version on; it may say that it is open before."""
    async for events in control.watch(DEPLOYMENTS, version):
        if events:
            return events[0]
    raise AssertionError("the watch ended without a word")


async def held(outside: Members, name: str) -> set[str]:
    return set(await outside.held(name, SECRETS))


async def passwords(outside: Members) -> set[str]:
    return {manifest["data"]["password"] for manifest in (await outside.held("key", SECRETS)).values()}

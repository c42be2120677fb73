"""The steps of a start that talk to servers: streams, definitions, joining, and waiting until everything is ready."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from services._kit.kube import ApiError, KubeClient, Unreachable, resource_path
from services._kit.private_files import private_text
from services.cli.control import read_kubeconfig
from services.cli.joining import (
    JoinRefused,
    Traits,
    access_of_kubeconfig,
    cluster_id,
    join,
    kubeconfig_of,
    member_identity,
)
from services.cli.layout import Installation
from services.cli.running import Failed

Manifest = dict[str, Any]


class NotReady(Exception):
    """Something did not become ready in time; the message names it and where its log is."""


async def until(what: str, look: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Look again and again until there is no complaint left; raises NotReady with the last one."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while True:
        complaint = await look()
        if not complaint:
            return
        if time.monotonic() > deadline:
            raise NotReady(f"{what}: {complaint}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def run_step(name: str, work: Callable[[], Awaitable[str]]) -> int:
    """Run one step, telling its name while it lasts and its result when it is done; the exit code."""
    began = time.monotonic()
    _say(f"  {name} … ")
    try:
        result = asyncio.run(_with_patience(work))
    except (NotReady, Failed, JoinRefused, ApiError, Unreachable, OSError, ValueError, KeyError) as error:
        _say(f"failed\n    {error}\n")
        return 1
    _say(f"{result or 'ok'} ({time.monotonic() - began:.1f} s)\n")
    return 0


async def _with_patience(work: Callable[[], Awaitable[str]]) -> str:
    return await work()


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


async def apply_streams(installation: Installation) -> str:
    """Create and update the streams of the log; waits for its server."""
    from services._kit import topology
    from services._kit.connection import Connection
    from services._kit.errors import Ambiguous, LogError, Unavailable

    connection: Connection | None = None

    async def connect() -> str:
        nonlocal connection
        try:
            connection = await Connection.open(installation.log_access, name="fleetlog/up", **installation.log_options)
        except Exception as error:  # noqa: BLE001  # the client raises many kinds while the server starts
            return f"no answer at {installation.log_url}: {error}"
        return ""

    async def make() -> str:
        assert connection is not None
        try:
            await topology.apply(connection, replicas=installation.log_replicas)
        except (Ambiguous, Unavailable) as error:
            # Several servers elect a leader first, and then one for each stream.
            return str(error)
        except LogError as error:
            raise Failed(f"the streams cannot be made with {installation.log_replicas} replicas: {error}") from None
        return ""

    await until("nats-server", connect, 30.0)
    assert connection is not None
    try:
        await until("streams", make, 60.0)
    finally:
        await connection.close()
    return ""


async def front_doors(kubeconfigs: Iterable[Path]) -> str:
    """Wait until every API server has written its kubeconfig and answers."""
    names = []

    async def wait_for(path: Path) -> None:
        async def look() -> str:
            try:
                client = await KubeClient.from_kubeconfig(path)
            except FileNotFoundError as error:
                return str(error)
            try:
                return await _answers(client)
            finally:
                await client.close()

        await until(path.stem, look, 60.0)

    paths = list(kubeconfigs)
    await asyncio.gather(*(wait_for(path) for path in paths))
    names = [path.stem for path in paths]
    return ", ".join(names)


async def services_ready(ports: dict[str, int]) -> str:
    """Wait until every service says that it is ready."""
    async with aiohttp.ClientSession() as session:

        async def wait_for(name: str, port: int) -> None:
            async def look() -> str:
                try:
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        return "" if answer.status == 200 else (await answer.text())[:300]
                except aiohttp.ClientError as error:
                    return str(error)

            await until(name, look, 60.0)

        await asyncio.gather(*(wait_for(name, port) for name, port in ports.items()))
    return f"{len(ports)} services"


async def register_members(control: Path, members: Mapping[str, Path], agents: Mapping[str, Path]) -> str:
    """Enter pull members and write their agents' kubeconfigs; what is there already is kept."""
    client = await KubeClient.from_kubeconfig(control)
    try:
        known = await _known(client)
        await asyncio.gather(
            *(_join_one(client, name, members[name], known.get(name), path) for name, path in agents.items())
        )
    finally:
        await client.close()
    return ", ".join(agents)


async def join_members(control: Path, members: Mapping[str, Path], agents: Mapping[str, Path] | None = None) -> str:
    """Make every cluster a member and wait until it is Ready; members that are joined already are kept.

    Those with an agent's kubeconfig become pull members. One that was joined before and does not answer now is told of
    and not waited for: the others have to run.
    """
    client = await KubeClient.from_kubeconfig(control)
    try:
        known = await _known(client)
        silent = await asyncio.gather(
            *(
                _join_one(client, name, path, known.get(name), (agents or {}).get(name))
                for name, path in members.items()
            )
        )
        told = dict(zip(members, silent, strict=True))
        await asyncio.gather(*(_until_ready(client, name) for name, silence in told.items() if not silence))
    finally:
        await client.close()
    return ", ".join(f"{name} (does not answer: {silence})" if silence else name for name, silence in told.items())


async def _known(control: KubeClient) -> dict[str, Manifest]:
    """The Cluster objects by name."""
    present = await control.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters"))
    return {item["metadata"]["name"]: item for item in present.get("items") or ()}


async def _join_one(control: KubeClient, name: str, path: Path, known: Manifest | None, agent: Path | None) -> str:
    """Join a member unless it is one already; why it does not answer, where that may be."""
    access = access_of_kubeconfig(read_kubeconfig(path))
    spec = known["spec"] if known is not None else {}
    pull = spec.get("syncMode") == "Pull"
    joined = pull or spec.get("apiEndpoint") == access.endpoint
    served = not pull or agent is None or _there(agent)
    member = await KubeClient.from_kubeconfig(path)
    try:
        silence = await _answers(member)
        if joined and (silence or served):
            return silence
        if silence:
            await until(f"member {name}", lambda: _answers(member), 60.0)
        identity = await cluster_id(member)
        ours = await member_identity(member, name, access)
    finally:
        await member.close()
    if agent is not None:
        private_text(agent, msgspec.json.encode(kubeconfig_of(ours, name)).decode())
    if not joined:
        await join(control, name, ours, identity, Traits(), mode="Pull" if agent else "Push", reuse=True)
    return ""


def _there(path: Path) -> bool:
    return path.exists()


async def _answers(member: KubeClient) -> str:
    """Nothing when a member is there, else what is wrong."""
    try:
        await member.request("GET", "/readyz", accept="*/*", timeout=5.0)
    except (ApiError, Unreachable) as error:
        return str(error)
    return ""


async def _until_ready(control: KubeClient, name: str) -> None:
    path = resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", name)

    async def look() -> str:
        cluster = await control.get(path)
        for condition in (cluster.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready":
                return "" if condition["status"] == "True" else str(condition.get("message"))
        return "its condition is not known yet"

    await until(f"member {name}", look, 60.0)

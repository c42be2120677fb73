"""An agent process that is killed goes on where it was, with the hub and without it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schemas.keys import ObjectKey
from services.agent.state_storage import stored
from tests.integration.agent.conftest import KEY, OTHER, Hub, Member, accounts, hub, member, users
from tests.support.waiting import eventually

__all__ = ["accounts", "hub", "member", "users"]

pytestmark = pytest.mark.faults


def noted(directory: Path, key: ObjectKey) -> bool:
    """Whether an agent saved that it told of an object; it saves before there is any work, too."""
    return (directory / "works.json").exists() and key in stored(directory, "m1").works.observed


class Processes:
    """Agents as processes of their own, one after the other on the same data."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self.started: list[asyncio.subprocess.Process] = []

    async def start(self) -> asyncio.subprocess.Process:
        """A new process; the one before must have ended."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.agent", env=self._environment, stderr=asyncio.subprocess.DEVNULL
        )
        self.started.append(process)
        return process


@pytest.fixture
async def processes(
    tmp_path: Path, hub: Hub, member: Member, users: dict[str, tuple[str, str]]
) -> AsyncIterator[Processes]:
    """Starts agents of m1; whatever still runs at the end is killed."""
    seed = tmp_path / "m1.nk"
    seed.write_text(users["m1"][0])
    made = Processes(
        {
            **os.environ,
            "FLEETLOG_NATS_URL": hub.server.url,
            "FLEETLOG_NATS_NKEY_FILE": str(seed),
            "FLEETLOG_AGENT_CLUSTER": "m1",
            "FLEETLOG_AGENT_KUBECONFIG": str(member.kubeconfig),
            "FLEETLOG_AGENT_DATA_DIR": str(tmp_path / "data"),
            "FLEETLOG_INSTANCE": "agent-0",
            "FLEETLOG_HTTP_PORT": "-1",
        }
    )
    yield made
    for process in made.started:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_agent_killed_repeatedly_applies_everything_once(
    hub: Hub, member: Member, processes: Processes, tmp_path: Path
) -> None:
    await hub.join("m1")
    for number in range(3):
        process = await processes.start()
        work = await hub.render("m1", f"version {number}", inline=False)
        await hub.reports("m1", applied=True, digest=work.digest)
        assert await member.text() == f"version {number}"
        process.send_signal(signal.SIGKILL)
        await process.wait()
    process = await processes.start()
    await hub.render("m1", "last", key=OTHER)
    await hub.reports("m1", OTHER, applied=True)
    await eventually(lambda: noted(tmp_path / "data", OTHER), "the note that it was told")
    process.terminate()
    assert await process.wait() == 0
    ends = (await hub.ends())["OBSERVED"]
    again = await processes.start()
    await hub.render("m1", "more", key=OTHER)

    async def more() -> bool:
        return await member.text(OTHER) == "more"

    await eventually(more)
    again.terminate()
    assert await again.wait() == 0
    assert (await hub.ends())["OBSERVED"] <= ends + 1, "what was saved is not said anew"


async def test_killed_while_the_hub_is_away_it_restores_what_it_knew(
    hub: Hub, member: Member, processes: Processes, tmp_path: Path
) -> None:
    await hub.join("m1")
    await hub.render("m1", "kept", inline=False)
    process = await processes.start()
    await member.shows("kept")
    await eventually(lambda: noted(tmp_path / "data", KEY), "the saved state")
    hub.server.kill9()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await member.client.delete(member.path())
    await processes.start()
    await member.shows("kept")
    hub.server.start()
    await hub.connection.wait_connected()
    await hub.withdraw("m1")
    await member.shows(None)


async def test_agent_killed_after_a_deletion_does_not_create_again(
    hub: Hub, member: Member, processes: Processes, tmp_path: Path
) -> None:
    await hub.join("m1")
    await hub.render("m1", "withdrawn", inline=False)
    await hub.render("m1", "kept", inline=False, key=OTHER)
    process = await processes.start()

    async def text(key: ObjectKey, expected: str | None) -> bool:
        return await member.text(key) == expected

    for key, expected in ((KEY, "withdrawn"), (OTHER, "kept")):
        await eventually(lambda key=key, expected=expected: text(key, expected), "the object")
        await eventually(lambda key=key: noted(tmp_path / "data", key), "the saved state")
    await hub.withdraw("m1")
    await eventually(lambda: text(KEY, None), "the deletion")
    process.send_signal(signal.SIGKILL)
    hub.server.kill9()
    await process.wait()
    await processes.start()
    for _ in range(2):
        # What is brought back after the start shows that all that was saved is acted on.
        await member.client.delete(member.path(OTHER))
        await eventually(lambda: text(OTHER, "kept"), "the restored object")
        assert await member.text() is None

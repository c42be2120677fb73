"""Whom the hub's server lets in: nobody who was cut off, whom nobody allowed, or whose account nobody signed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.agent import Hello
from services._kit.base.log_errors import LogError
from services._kit.log.connection import Connection
from services._rules.identity.account_tokens import (
    DELETE_SUBJECT,
    UPDATE_SUBJECT,
    activations,
    agent_token,
    agent_user_token,
    creds_text,
    deletion_token,
    public,
)
from services._rules.identity.accounts import agent_exports
from services.cli.nats import account_claims as claims
from services.cli.nats.nkeys import new_key, read_key
from tests.integration.agent.conftest import Agents, Hub, Member
from tests.integration.agent.hub_servers import CONFIGURED_AND_SIGNED, SIGNED, JwtHubServer, Users, new_user
from tests.support.waiting import eventually


@CONFIGURED_AND_SIGNED
async def test_revoked_agent_stays_out_until_it_is_allowed(
    hub: Hub, member: Member, agents: Agents, users: Users, open_agent: Any
) -> None:
    await hub.join("m1")
    await hub.render("m1", "before")
    agent = agents.start()
    await member.shows("before")
    other = await open_agent("m2")
    old = hub.server.identity(hub.server.agent_settings("m1", users))
    async with asyncio.timeout(60):
        await hub.server.revoke("m1")
        await eventually(lambda: not agent.link.is_connected, "the end of the connection")
    refused = asyncio.Event()
    intruder = asyncio.create_task(Connection.open(hub.server.url, on_error=lambda _: refused.set(), **old))
    await asyncio.wait_for(refused.wait(), 60)
    assert not intruder.done()
    intruder.cancel()
    await asyncio.gather(intruder, return_exceptions=True)
    await hub.render("m1", "after")
    assert (hub.connection.generation, other.connection.generation) == (0, 0), "nobody else was disconnected"
    assert await member.text() == "before"

    async def returned() -> None:
        await eventually(lambda: agent.link.is_connected, "the return")

    await hub.server.allow_again("m1", users, returned)
    await member.shows("after")


@asynccontextmanager
async def refused(hub: Hub, settings: Any) -> AsyncIterator[None]:
    """Somebody asks to be let in with these settings of an agent, and is refused."""
    errors: list[Exception] = []
    identity = hub.server.identity(settings)
    opening = asyncio.create_task(Connection.open(hub.server.url, on_error=errors.append, **identity))
    yield
    await eventually(lambda: any("Authorization" in str(error) for error in errors), "the refusal")
    assert not opening.done()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


@CONFIGURED_AND_SIGNED
async def test_a_key_nobody_knows_does_not_connect(hub: Hub) -> None:
    async with refused(hub, hub.server.stranger()):
        pass


@CONFIGURED_AND_SIGNED
async def test_server_restart_keeps_allowed_and_revoked_agents(
    hub: Hub, users: Users, open_agent: Any, story: str
) -> None:
    old = hub.server.agent_settings("m1", users)
    other = await open_agent("m2")
    await hub.server.revoke("m1")
    hub.server.stop()
    hub.server.start()

    async def served() -> bool:
        return bool(await other.ask("hello.m2", msgspec.json.encode(Hello(cluster="m2", instance="y", at=1.0))))

    async with refused(hub, old):
        await eventually(served, "an answer to the other agent")


@SIGNED
async def test_unsigned_accounts_admit_no_agent(hub: Hub, open_agent: Any, story: str, tmp_path: Path) -> None:
    assert isinstance(hub.server, JwtHubServer)
    authority = hub.server.authority
    account, stranger, (seed, user) = new_key("account"), new_key("operator"), new_user()
    allowed = activations(account, public(account), agent_exports("m2"), at=1)
    forged = agent_token(stranger, public(account), "m2", authority.book().hub, allowed, at=1)
    creds = tmp_path / "forged.creds"
    creds.write_text(creds_text(agent_user_token(account, user, "m2", at=1), seed))
    async with claims.opened(hub.server.url, authority.system_creds) as system:
        # A server keeps what it is handed; whom it trusts is asked when somebody comes with it.
        await system.request(UPDATE_SUBJECT, forged.encode())
        assert "uthorization" in str(await claims.connect(hub.server.url, creds))
        deletion = deletion_token(stranger, [authority.book().agents["m2"].account], at=1)
        answer = msgspec.json.decode((await system.request(DELETE_SUBJECT, deletion.encode())).data)
        assert "error" in answer, answer
    other = await open_agent("m2")
    assert await other.ask("hello.m2", msgspec.json.encode(Hello(cluster="m2", instance="y", at=1.0)))


@SIGNED
async def test_an_account_that_signs_its_own_leave_reaches_nobody(hub: Hub, tmp_path: Path) -> None:
    assert isinstance(hub.server, JwtHubServer)
    authority = hub.server.authority
    signing, account, (seed, user) = read_key(authority.directory / "signing.nk"), new_key("account"), new_user()
    allowed = activations(account, public(account), agent_exports("m2"), at=1)
    token = agent_token(signing, public(account), "m2", authority.book().hub, allowed, at=1)
    creds = tmp_path / "own.creds"
    creds.write_text(creds_text(agent_user_token(account, user, "m2", at=1), seed))
    before = hub.registrar.stats.refused  # type: ignore[attr-defined]  # set by the fixture
    async with claims.opened(hub.server.url, authority.system_creds) as system:
        await system.request(UPDATE_SUBJECT, token.encode())
    answer = await claims.connect(hub.server.url, creds)
    if isinstance(answer, Connection):
        with pytest.raises(LogError):
            await answer.request("hello.m2", b"", timeout=0.5)
        await answer.close()
    assert hub.registrar.stats.refused == before  # type: ignore[attr-defined]  # set by the fixture

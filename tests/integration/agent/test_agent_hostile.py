"""What an agent that turned against the hub can do: nothing to any stream, and nothing it learns of another cluster.

Over 400 lines: every way to ask for something is tried in one scene, and is read beside what it must not change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace
from nats.aio.msg import Msg

from schemas.agent import BLOB_DIGEST, BLOB_PROBLEM, BlobsWanted, Hello, HelloAnswer, Reported, ReportedAnswer
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import lease, observed, work
from services._kit.connection import Connection
from services._kit.errors import LogError
from services._kit.settings import credentials
from services._rules.account_tokens import (
    DELETE_SUBJECT,
    UPDATE_SUBJECT,
    activations,
    agent_token,
    agent_user_token,
    creds_text,
    deletion_token,
    public,
)
from services._rules.accounts import agent_consumer, agent_exports
from services._rules.interpreter.configured import CUSTOMIZATION
from services.cli import claims
from services.cli.authority import new_key, read_key
from services.registrar.settings import RegistrarSettings
from tests.integration.agent.conftest import KEY, Agents, Hub, HubServer, JwtHubServer, Member, new_user, until

SECRET = "known-only-to-m2"
FOR_ALL = "how-objects-are-interpreted"
POLICY = "a-policy-of-the-hub"
THEIR_UID = "0b9c6f4e-the-second"
THEIRS = ObjectKey("", "configmaps", "default", "theirs")


class Hostile:
    """A connection with an agent's key that keeps everything it is sent."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.heard: list[Msg] = []

    async def hear(self, message: Msg) -> None:
        """Keep a message."""
        self.heard.append(message)

    async def ask(self, subject: str, body: bytes) -> bytes:
        """The answer to a request, empty without one."""
        try:
            return bytes((await self.connection.request(subject, body, timeout=2.0)).data)
        except LogError:
            return b""

    def learnt(self, what: str) -> bool:
        """Whether something was in any message it got."""
        return any(what.encode() in message.data for message in self.heard)


@pytest.fixture(params=[HubServer, JwtHubServer], ids=["configured", "signed"])
def accounts(request: pytest.FixtureRequest) -> type[HubServer]:
    """Accounts in the server's configuration, and accounts that an operator signs."""
    kind: type[HubServer] = request.param
    return kind


def identity(hub: Hub, settings: dict[str, str]) -> dict[str, Any]:
    """What the client takes for an identity in an agent's settings."""
    return credentials(RegistrarSettings(nats_url=hub.server.url, **settings))


@pytest.fixture
async def open_agent(hub: Hub, users: dict[str, tuple[str, str]]) -> AsyncIterator[Callable[[str], Any]]:
    """Opens a raw connection with the key of a cluster's agent."""
    opened: list[Connection] = []

    async def connect(cluster: str) -> Hostile:
        connection = await Connection.open(hub.server.url, **identity(hub, hub.server.agent_settings(cluster, users)))
        opened.append(connection)
        return Hostile(connection)

    yield connect
    for connection in opened:
        await connection.close()


@pytest.fixture
async def story(hub: Hub, open_agent: Any) -> str:
    """Two clusters with works, and a consumer of the second one's agent; the digest of its manifest."""
    await hub.join("m1")
    await hub.join("m2", uid=THEIR_UID)
    await hub.render("m1", "ours")
    await hub.render("m2", SECRET, key=THEIRS)
    stored = await hub.render("m2", SECRET, inline=False)
    interpreter = PolicyKey(CUSTOMIZATION, "", "widgets")
    others = [PolicyKey(kind, "default", "p") for kind in ("PropagationPolicy", "OverridePolicy")]
    for key in (interpreter, *others):
        told = Raw(msgspec.json.encode({"spec": {"told": FOR_ALL if key == interpreter else POLICY}}))
        await hub.say(PolicyChanged(key=key, uid="p", manifest=told))
    hello = Hello(cluster="m2", instance="m2", at=1.0, fresh=True)

    async def greeted() -> bool:
        other = await open_agent("m2")
        answer = await other.ask("hello.m2", msgspec.json.encode(hello))
        return bool(answer) and not msgspec.json.decode(answer, type=HelloAnswer).problem

    await until(greeted, "the consumer of m2")
    return stored.digest


async def consumers(hub: Hub) -> dict[str, str]:
    """Consumers on FACTS that belong to agents, and when they were made."""
    answer = await hub.connection.request("$JS.API.CONSUMER.LIST.FACTS")
    found = msgspec.json.decode(answer.data)["consumers"]
    return {one["name"]: one["created"] for one in found if one["name"].startswith("agent-")}


async def configurations(hub: Hub) -> dict[str, Any]:
    """The configuration of every stream."""
    answer = await hub.connection.request("$JS.API.STREAM.LIST")
    return {one["config"]["name"]: one["config"] for one in msgspec.json.decode(answer.data)["streams"]}


def everything_wrong(digest: str) -> list[bytes]:
    """Bodies that claim to be somebody else's."""
    seen = WorkObserved(cluster="m2", key=THEIRS, uid="u1", applied=True, at=1.0)
    return [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"batch":100,"no_wait":true}',
        msgspec.json.encode(Hello(cluster="m2", instance="x", at=1.0, fresh=True, uid="uid-m2")),
        msgspec.json.encode(BlobsWanted(digests=(digest,), as_of=1 << 60)),
        msgspec.json.encode(Reported(events=(seen, replace(seen, cluster="m1"), replace(seen, work_seq=1 << 60)))),
        msgspec.json.encode({"stream_name": "FACTS", "config": {"durable_name": "x", "ack_policy": "none"}}),
        msgspec.json.encode({"seq": 1}),
    ]


SUBJECTS = (
    "work.m1.>",
    work("m1", KEY),
    work("m2", THEIRS),
    observed("m1", KEY),
    observed("m2", THEIRS),
    lease("registrar"),
    "cluster.m1",
    "placement.1.a.b.c",
    "blob.x",
    "obj.x",
    "active.m2",
    "alive.registrar",
    "_INBOX.hub",
    "hello.m2",
    "reports.m2",
    "blobs.m2",
    "$JS.API.INFO",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.INFO.FACTS",
    "$JS.API.STREAM.CREATE.MINE",
    "$JS.API.STREAM.UPDATE.FACTS",
    "$JS.API.STREAM.DELETE.FACTS",
    "$JS.API.STREAM.PURGE.FACTS",
    "$JS.API.STREAM.MSG.GET.FACTS",
    "$JS.API.STREAM.MSG.DELETE.FACTS",
    "$JS.API.STREAM.SNAPSHOT.FACTS",
    "$JS.API.STREAM.RESTORE.FACTS",
    f"$JS.API.DIRECT.GET.FACTS.{work('m2', THEIRS)}",
    "$JS.API.DIRECT.GET.FACTS",
    "$JS.API.CONSUMER.CREATE.FACTS",
    "$JS.API.CONSUMER.CREATE.FACTS.x",
    "$JS.API.CONSUMER.CREATE.FACTS.agent-m1.work.m2.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.FACTS.x",
    "$JS.API.CONSUMER.DELETE.FACTS.agent-m2",
    "$JS.API.CONSUMER.INFO.FACTS.agent-m2",
    "$JS.API.CONSUMER.LIST.FACTS",
    "$JS.API.CONSUMER.PAUSE.FACTS.agent-m2",
    "$JS.API.CONSUMER.UNPIN.FACTS.agent-m2",
    f"$JS.API.CONSUMER.MSG.NEXT.FACTS.{agent_consumer('m2')}",
    "$JS.API.CONSUMER.MSG.NEXT.OBSERVED.x",
    "$JS.ACK.FACTS.agent-m2.1.1.1.1.0",
    "$JS.FC.FACTS.agent-m2.x",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.HUB.CONNZ",
    "$SYS.REQ.USER.INFO",
    "$SYS.REQ.CLAIMS.UPDATE",
    "$SYS.REQ.CLAIMS.DELETE",
    "$SYS.REQ.CLAIMS.LIST",
    "_R_.x.y",
)
HEADERS: tuple[dict[str, str] | None, ...] = (
    None,
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"},
    {"Nats-Rollup": "all"},
    {"Nats-Expected-Stream": "FACTS", "Nats-Msg-Id": "x"},
)


async def test_nothing_it_sends_changes_a_stream_and_nothing_it_gets_is_of_another_cluster(
    hub: Hub, open_agent: Any, story: str
) -> None:
    hostile = await open_agent("m1")
    nc = hostile.connection.nc
    ours = [export.subject for export in agent_exports("m1")]
    before = (await hub.ends(), await configurations(hub), await consumers(hub))
    for pattern in (">", "*", "*.>", "work.>", "observed.>", "_INBOX.>", "_R_.>", "$JS.>", "$SYS.>", "hello.*"):
        await nc.subscribe(pattern, cb=hostile.hear)
    bodies = everything_wrong(story)
    for subject in (*SUBJECTS, *ours):
        for body in bodies:
            await hostile.connection.publish(subject, body, reply=hostile.connection.inbox())
        for headers in HEADERS:
            await hostile.connection.publish(subject, b"{}", headers)
    # Whatever it may ask for, with answers sent where others live.
    for reply in (*SUBJECTS, *ours):
        for subject in ours:
            for body in (b"{}", bodies[3], bodies[4]):
                await hostile.connection.publish(subject, body, reply=reply.replace(">", "x"))
    for subject in SUBJECTS:
        assert not (await _quick(hostile, subject)), f"an answer on {subject}"
    stats = hub.registrar.stats  # type: ignore[attr-defined]  # set by the fixture

    async def digested() -> bool:
        # What was sent last is answered last: then all before it was looked at.
        answer = await hostile.ask("hello.m1", msgspec.json.encode(Hello(cluster="m1", instance="x", at=1.0)))
        return bool(answer)

    await until(digested, "an answer to an honest greeting")
    assert stats.refused > 0
    ends, configured, made = await hub.ends(), await configurations(hub), await consumers(hub)
    assert ends == before[0]
    assert configured == before[1]
    assert made["agent-m2"] == before[2]["agent-m2"]
    assert set(made) <= {"agent-m1", "agent-m2"}
    assert hostile.heard, "it heard the answers to what it may ask"
    for what in (SECRET, THEIR_UID, POLICY, agent_consumer("m2")):
        assert not hostile.learnt(what), what


async def _quick(hostile: Hostile, subject: str) -> bytes:
    """The answer to a request that is refused at once, or never answered."""
    try:
        return bytes((await hostile.connection.request(subject, b"", timeout=0.05)).data)
    except LogError:
        return b""


async def test_the_same_trick_from_inside_the_hubs_account_would_have_worked(hub: Hub, story: str) -> None:
    before = await hub.ends()
    await hub.connection.publish(observed("m1", KEY), b"{}", reply=lease("registrar"))

    async def moved() -> bool:
        return (await hub.ends())["FACTS"] > before["FACTS"]

    await until(moved, "the server's own answer on the lease's subject")


async def test_an_agent_reads_its_own_works_and_nothing_else_with_what_it_is_allowed(
    hub: Hub, open_agent: Any, story: str
) -> None:
    one, two = await open_agent("m1"), await open_agent("m2")
    for agent, cluster in ((one, "m1"), (two, "m2")):
        hello = Hello(cluster="m2", instance="x", at=1.0, fresh=True)
        answer = msgspec.json.decode(await agent.ask(f"hello.{cluster}", msgspec.json.encode(hello)), type=HelloAnswer)
        assert answer.consumer == f"agent-{cluster}", "the subject decides, not the body"
        inbox = agent.connection.inbox()
        await agent.connection.subscribe(inbox, agent.hear)
        pull = msgspec.json.encode({"batch": 100, "no_wait": True})
        await agent.connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.FACTS.agent-{cluster}", pull, reply=inbox)
        await agent.connection.publish(
            f"blobs.{cluster}", msgspec.json.encode(BlobsWanted(digests=(story,))), reply=inbox
        )
        await until(lambda agent=agent: any(BLOB_DIGEST in (m.headers or {}) for m in agent.heard), "blobs")
        await until(lambda agent=agent: any(m.subject.startswith("work.") for m in agent.heard), "works")
        await until(lambda agent=agent: agent.learnt(FOR_ALL), "how objects are interpreted")
    assert two.learnt(SECRET), "the same requests give m2 what is its own"
    assert not one.learnt(SECRET)
    for agent, cluster in ((one, "m1"), (two, "m2")):
        # All of it came: what ends a request is behind everything that there was.
        await until(lambda agent=agent: any((m.headers or {}).get("Status") == "404" for m in agent.heard), "the end")
        assert not agent.learnt(POLICY)
        facts = {m.subject for m in agent.heard if m.reply.startswith("$JS.ACK.")}
        assert all(subject.startswith((f"work.{cluster}.", f"policy.{CUSTOMIZATION}.")) for subject in facts), facts
    problems = [m.headers[BLOB_PROBLEM] for m in one.heard if BLOB_PROBLEM in (m.headers or {})]
    assert problems == ["no current work of m1 names it"]


async def test_reports_on_what_is_not_its_own_are_refused_and_honest_ones_stored(
    hub: Hub, open_agent: Any, story: str
) -> None:
    agent = await open_agent("m1")
    before = await hub.ends()
    honest = WorkObserved(cluster="m1", key=KEY, uid="u1", applied=True, health="Healthy", at=5.0)
    wrong = (
        replace(honest, cluster="m2"),
        replace(honest, key=THEIRS),
        replace(honest, health="Splendid"),
        replace(honest, message="x" * 100_000),
        replace(honest, status=msgspec.Raw(b"[1]")),
        replace(honest, work_seq=1 << 60),
    )
    body = msgspec.json.encode(Reported(events=wrong))
    answer = msgspec.json.decode(await agent.ask("reports.m1", body), type=ReportedAnswer)
    assert [index for index, _ in answer.refused] == list(range(len(wrong)))
    assert await hub.ends() == before
    body = msgspec.json.encode(Reported(events=(replace(honest, prev=99),)))
    for _ in range(2):
        # The second time is what an agent does that never saw the first answer.
        answer = msgspec.json.decode(await agent.ask("reports.m1", body), type=ReportedAnswer)
        assert not answer.refused
        seen = await until(lambda: hub.last_seen("m1"))
        assert (seen.at, seen.prev) == (5.0, 0)
        state = hub.registrar._context.projection.state  # type: ignore[attr-defined]  # set by the fixture
        await until(lambda state=state: state.observed, "the registrar's own reading")
    assert (await hub.ends())["OBSERVED"] == before["OBSERVED"] + 1


async def test_a_flood_from_one_agent_leaves_the_others_served(hub: Hub, open_agent: Any, story: str) -> None:
    hostile, other = await open_agent("m1"), await open_agent("m2")
    stats = hub.registrar.stats  # type: ignore[attr-defined]  # set by the fixture
    hello = msgspec.json.encode(Hello(cluster="m1", instance="x", at=1.0, fresh=True))

    enough = asyncio.Event()

    async def flood() -> None:
        while not enough.is_set():
            for _ in range(50):
                await hostile.connection.publish("hello.m1", hello, reply=hostile.connection.inbox())
            await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    try:
        await until(lambda: stats.dropped > 100, "dropped requests")
        for _ in range(3):
            assert await other.ask("hello.m2", msgspec.json.encode(Hello(cluster="m2", instance="y", at=1.0)))
    finally:
        enough.set()
        await flooding


async def test_a_revoked_agent_is_cut_off_and_stays_out_until_it_is_allowed_again(
    hub: Hub, member: Member, agents: Agents, users: dict[str, tuple[str, str]], open_agent: Any
) -> None:
    await hub.join("m1")
    await hub.render("m1", "before")
    agent = agents.start()

    async def delivered() -> bool:
        return await member.text() == "before"

    await until(delivered)
    other = await open_agent("m2")
    old = identity(hub, hub.server.agent_settings("m1", users))
    async with asyncio.timeout(60):
        await hub.server.revoke("m1")
        await until(lambda: not agent.link.is_connected, "the end of the connection")
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
        await until(lambda: agent.link.is_connected, "the return")

    await hub.server.allow_again("m1", users, returned)

    async def after() -> bool:
        return await member.text() == "after"

    await until(after)


async def test_a_key_nobody_knows_does_not_connect(hub: Hub) -> None:
    errors: list[Exception] = []
    stranger = identity(hub, hub.server.stranger())
    opening = asyncio.create_task(Connection.open(hub.server.url, on_error=errors.append, **stranger))
    await until(lambda: any("Authorization" in str(error) for error in errors), "the refusal")
    assert not opening.done()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


async def test_a_restart_of_the_server_changes_nothing_about_who_is_in_and_who_is_out(
    hub: Hub, users: dict[str, tuple[str, str]], open_agent: Any, story: str
) -> None:
    old = identity(hub, hub.server.agent_settings("m1", users))
    other = await open_agent("m2")
    await hub.server.revoke("m1")
    hub.server.stop()
    hub.server.start()
    errors: list[Exception] = []
    opening = asyncio.create_task(Connection.open(hub.server.url, on_error=errors.append, **old))

    async def served() -> bool:
        return bool(await other.ask("hello.m2", msgspec.json.encode(Hello(cluster="m2", instance="y", at=1.0))))

    await until(served, "an answer to the other agent")
    await until(lambda: any("Authorization" in str(error) for error in errors), "the refusal")
    assert not opening.done()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


async def test_accounts_that_the_operator_did_not_sign_let_nobody_in_and_delete_nothing(
    hub: Hub, open_agent: Any, story: str, tmp_path: Path
) -> None:
    if not isinstance(hub.server, JwtHubServer):
        pytest.skip("a configured server takes no claims")
    authority = hub.server.authority
    account, stranger, (seed, user) = new_key("account"), new_key("operator"), new_user()
    allowed = activations(account, public(account), "m2", at=1)
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


async def test_an_account_that_signs_its_own_leave_reaches_nobody(hub: Hub, tmp_path: Path) -> None:
    if not isinstance(hub.server, JwtHubServer):
        pytest.skip("a configured server takes no claims")
    authority = hub.server.authority
    signing, account, (seed, user) = read_key(authority.directory / "signing.nk"), new_key("account"), new_user()
    allowed = activations(account, public(account), "m2", at=1)
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

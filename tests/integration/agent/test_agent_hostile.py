"""What an agent that turned against the hub can do: nothing to any stream, and nothing it learns of another cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.agent import BLOB_DIGEST, BLOB_PROBLEM, BlobsWanted, Hello, HelloAnswer, Reported, ReportedAnswer
from schemas.events.observed import WorkObserved
from schemas.subjects import lease, observed, work
from services._kit.base.log_errors import LogError
from services._rules.identity.accounts import agent_consumer, agent_exports
from services._rules.interpreter.configuration import CUSTOMIZATION
from tests.integration.agent.conftest import KEY, Agents, Hub
from tests.integration.agent.hostile_agent import FOR_ALL, POLICY, SECRET, THEIR_UID, THEIRS, HostileAgent
from tests.integration.agent.hub_servers import CONFIGURED_AND_SIGNED
from tests.support.waiting import eventually

pytestmark = CONFIGURED_AND_SIGNED


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


async def test_agent_changes_no_stream_and_reads_no_other_cluster(hub: Hub, open_agent: Any, story: str) -> None:
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

    await eventually(digested, "an answer to an honest greeting")
    assert stats.refused > 0
    ends, configured, made = await hub.ends(), await configurations(hub), await consumers(hub)
    assert ends == before[0]
    assert configured == before[1]
    assert made["agent-m2"] == before[2]["agent-m2"]
    assert set(made) <= {"agent-m1", "agent-m2"}
    assert hostile.heard, "it heard the answers to what it may ask"
    for what in (SECRET, THEIR_UID, POLICY, agent_consumer("m2")):
        assert not hostile.learnt(what), what


async def _quick(hostile: HostileAgent, subject: str) -> bytes:
    """The answer to a request that is refused at once, or never answered."""
    try:
        return bytes((await hostile.connection.request(subject, b"", timeout=0.05)).data)
    except LogError:
        return b""


async def test_same_attack_works_inside_the_hub_account(hub: Hub, story: str) -> None:
    before = await hub.ends()
    await hub.connection.publish(observed("m1", KEY), b"{}", reply=lease("registrar"))

    async def moved() -> bool:
        return (await hub.ends())["FACTS"] > before["FACTS"]

    await eventually(moved, "the server's own answer on the lease's subject")


async def test_agent_reads_only_its_own_works(hub: Hub, open_agent: Any, story: str) -> None:
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
        await eventually(lambda agent=agent: any(BLOB_DIGEST in (m.headers or {}) for m in agent.heard), "blobs")
        await eventually(lambda agent=agent: any(m.subject.startswith("work.") for m in agent.heard), "works")
        await eventually(lambda agent=agent: agent.learnt(FOR_ALL), "how objects are interpreted")
    assert two.learnt(SECRET), "the same requests give m2 what is its own"
    assert not one.learnt(SECRET)
    for agent, cluster in ((one, "m1"), (two, "m2")):
        # All of it came: what ends a request is behind everything that there was.
        await eventually(
            lambda agent=agent: any((m.headers or {}).get("Status") == "404" for m in agent.heard), "the end"
        )
        assert not agent.learnt(POLICY)
        facts = {m.subject for m in agent.heard if m.reply.startswith("$JS.ACK.")}
        assert all(subject.startswith((f"work.{cluster}.", f"policy.{CUSTOMIZATION}.")) for subject in facts), facts
    problems = [m.headers[BLOB_PROBLEM] for m in one.heard if BLOB_PROBLEM in (m.headers or {})]
    assert problems == ["no current work of m1 names it"]


async def test_foreign_reports_are_refused_and_own_ones_stored(hub: Hub, open_agent: Any, story: str) -> None:
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
        seen = await eventually(lambda: hub.last_seen("m1"))
        assert (seen.at, seen.prev) == (5.0, 0)
        state = hub.registrar._context.projection.state  # type: ignore[attr-defined]  # set by the fixture
        await eventually(lambda state=state: state.observed, "the registrar's own reading")
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
        await eventually(lambda: stats.dropped > 100, "dropped requests")
        for _ in range(3):
            assert await other.ask("hello.m2", msgspec.json.encode(Hello(cluster="m2", instance="y", at=1.0)))
    finally:
        enough.set()
        await flooding


async def test_of_a_flood_of_reports_the_last_is_stored(hub: Hub, open_agent: Any, story: str) -> None:
    hostile, other = await open_agent("m1"), await open_agent("m2")
    stats = hub.registrar.stats  # type: ignore[attr-defined]  # set by the fixture
    honest = WorkObserved(cluster="m1", key=KEY, uid="u1", applied=True, health="Healthy")
    large = "x" * 900_000
    theirs = WorkObserved(cluster="m2", key=THEIRS, uid="u1", applied=True, health="Healthy")

    def said(number: int) -> bytes:
        status = msgspec.Raw(msgspec.json.encode({"number": number, "text": large}))
        return msgspec.json.encode(Reported(events=(replace(honest, status=status, at=float(number)),)))

    for number in range(1, 101):
        await hostile.connection.publish("reports.m1", said(number), reply=hostile.connection.inbox())
        if number % 10 == 0:
            body = msgspec.json.encode(Reported(events=(replace(theirs, at=float(number)),)))
            answer = msgspec.json.decode(await other.ask("reports.m2", body), type=ReportedAnswer)
            assert not answer.refused

    async def last() -> bool:
        answer = await hostile.ask("reports.m1", said(1000))
        return bool(answer) and msgspec.json.decode(answer, type=ReportedAnswer) == ReportedAnswer()

    await eventually(last, "the last report is stored")
    seen = await eventually(lambda: hub.last_seen("m1"))
    assert seen.at == 1000.0
    assert stats.superseded + stats.dropped > 0


async def test_an_agent_that_waits_for_answers_is_paced_by_bytes(hub: Hub, open_agent: Any, story: str) -> None:
    """Nothing that it says is superseded: each report is stored before it says the next."""
    registrar: Any = hub.registrar
    registrar._settings = replace(registrar._settings, report_bytes_burst=1e6, report_bytes_per_second=1e6)
    agent, size, count = await open_agent("m1"), 900_000, 5
    before, begun = (await hub.bytes())["OBSERVED"], asyncio.get_running_loop().time()
    for number in range(1, count + 1):
        status = msgspec.Raw(msgspec.json.encode({"number": number, "text": "x" * size}))
        event = WorkObserved(cluster="m1", key=KEY, uid="u1", applied=True, health="Healthy", status=status)
        body = msgspec.json.encode(Reported(events=(replace(event, at=float(number)),)))
        assert msgspec.json.decode(await agent.ask("reports.m1", body), type=ReportedAnswer) == ReportedAnswer()
    took = asyncio.get_running_loop().time() - begun
    grown = (await hub.bytes())["OBSERVED"] - before
    assert grown > count * size
    # The last report is answered before it is paid for.
    assert grown < 1e6 + 1e6 * took + 2 * size, took


async def test_forged_reports_are_followed_by_the_agents_own(hub: Hub, agents: Agents, open_agent: Any) -> None:
    await hub.join("m1")
    agent = agents.start()
    work = await hub.render("m1", "true")
    seen = await hub.reports("m1", applied=True, digest=work.digest)
    hostile = await open_agent("m1")
    hello = Hello(cluster="m1", instance="hostile", at=1.0, fresh=True, session="theirs")
    lie = replace(seen, applied=False, reason="AppliedFailed", at=seen.at + 1)

    def said(session: str) -> bytes:
        return msgspec.json.encode(Reported(events=(lie,), session=session))

    other = msgspec.json.decode(await hostile.ask("reports.m1", said("made-up")), type=ReportedAnswer)
    assert other.superseded, "outside of the agent's session nothing counts"
    assert (await hub.last_seen("m1")) == seen
    await agents.stop(agent)
    await hostile.ask("hello.m1", msgspec.json.encode(hello))
    assert msgspec.json.decode(await hostile.ask("reports.m1", said("theirs")), type=ReportedAnswer) == ReportedAnswer()
    await hub.reports("m1", applied=False)
    agents.start()
    await hub.reports("m1", applied=True, digest=work.digest)
    assert hub.registrar.stats.sessions_taken == 2  # type: ignore[attr-defined]  # set by the fixture

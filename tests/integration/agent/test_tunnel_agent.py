"""A whole agent that answers requests, or not, and the records of both sides on the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from schemas.agent import Hello, Reported, ReportedAnswer
from schemas.codec import decode
from schemas.events.request import MemberRequested
from schemas.topology import REQUESTS
from services._kit.base.clock import SystemClock
from services._kit.base.settings import SettingsError
from services._kit.log.jetstream import JetStreamLog
from services._kit.proxying.member_exchange import MemberRefused, MemberRequest
from services._kit.proxying.pull_members import PullMembers
from services._kit.proxying.pull_transport import PullTransport
from services._kit.proxying.recorded_transport import RecordedTransport
from services._kit.proxying.request_journal import RequestJournal
from services.registrar.settings import RegistrarSettings
from tests.integration.agent.conftest import KEY, Agents, Hub, Member
from tests.integration.agent.hub_servers import CONFIGURED_AND_SIGNED
from tests.support.waiting import eventually

PODS = "/api/v1/namespaces/default/configmaps"


def asked(path: str, method: str = "GET") -> MemberRequest:
    """A request of anna's."""
    return MemberRequest("m1", method, path, (("Accept", "application/json"),), "anna", ("system:masters",))


async def records(hub: Hub, subject: str) -> list[MemberRequested]:
    """What is on record."""
    found = []
    async for message in JetStreamLog(hub.connection, REQUESTS.name).read((subject,)):
        event = decode(message.subject, message.data)
        assert isinstance(event, MemberRequested)
        found.append(event)
    return found


@pytest.fixture
async def transport(hub: Hub) -> AsyncIterator[PullTransport]:
    """The hub's side on a connection of its own."""
    settings = RegistrarSettings(nats_url=hub.server.url, **hub.server.hub_settings)
    members = await PullMembers.open(settings, "gateway", SystemClock())
    yield members.transport
    await members.close()


@CONFIGURED_AND_SIGNED
async def test_both_sides_put_a_request_on_record(
    hub: Hub, agents: Agents, member: Member, transport: PullTransport
) -> None:
    await hub.join("m1")
    await hub.render("m1", "hello")
    journal = RequestJournal(JetStreamLog(hub.connection, REQUESTS.name), SystemClock())
    recorded = RecordedTransport(transport, "gateway", SystemClock(), journal.take)
    agents.start(agent_requests="read")
    await member.shows("hello")
    await eventually(lambda: transport.answers("m1"), "the greeting")
    found = await recorded.open(asked(f"{PODS}/{KEY.name}?token=secret"))
    body = b""
    while data := await found.read():
        body += data
    await found.close()
    assert msgspec.json.decode(body)["data"]["text"] == "hello"
    with pytest.raises(MemberRefused):
        await recorded.open(asked(f"{PODS}/{KEY.name}", "DELETE"))
    ours = await eventually(lambda: _pair(hub, "request.m1.hub"), "the records of the hub")
    theirs = await eventually(lambda: _pair(hub, "request.m1.agent"), "the records of the agent")
    for side, (first, second) in (("hub", ours), ("agent", theirs)):
        assert (first.side, first.cluster, first.user, first.status) == (side, "m1", "anna", 200)
        assert first.path == f"{PODS}/{KEY.name}?token="
        assert first.received == len(body)
        assert (second.method, second.status) == ("DELETE", 0)
        assert "does not permit delete configmaps" in second.problem
    assert await member.text() == "hello"


async def _pair(hub: Hub, subject: str) -> list[MemberRequested]:
    found = await records(hub, subject)
    return found if len(found) == 2 else []


async def test_an_agent_answers_nothing_unless_told_to(
    hub: Hub, agents: Agents, member: Member, transport: PullTransport
) -> None:
    await hub.join("m1")
    await hub.render("m1", "hello")
    await hub.connection.subscribe("tunnel.>", _never)
    agents.start()
    await member.shows("hello")
    await hub.reports("m1", applied=True)
    assert not transport.answers("m1")


async def _never(message: Any) -> None:
    raise AssertionError(f"a message on {message.subject}")


async def test_a_list_that_is_wrong_ends_the_agent(hub: Hub, agents: Agents) -> None:
    with pytest.raises(SettingsError, match="FLEETLOG_AGENT_REQUESTS"):
        agents.start(agent_requests="/no/such/file")


@CONFIGURED_AND_SIGNED
async def test_records_of_an_agent_are_of_its_cluster(hub: Hub, open_agent: Any, story: str) -> None:
    hostile = await open_agent("m1")
    hello = Hello(cluster="m1", instance="x", at=1.0, fresh=True, session="s")
    await hostile.ask("hello.m1", msgspec.json.encode(hello))
    wrong = MemberRequested(
        cluster="m2",
        side="hub",
        by="gateway",
        user="root\r\n" * 100_000,
        method="GET",
        path="/?token=secret",
        started=9e99,
    )
    body = msgspec.json.encode(Reported(requests=(wrong,) * 5, session="s"))
    answer = msgspec.json.decode(await hostile.ask("reports.m1", body), type=ReportedAnswer)
    assert answer.problem == ""
    found = await eventually(lambda: records(hub, "request.*.*"), "the records")
    for event in found:
        assert (event.cluster, event.side, event.path) == ("m1", "agent", "/?token=")
        assert len(event.user) <= 256


async def test_records_of_another_session_are_refused(hub: Hub, open_agent: Any, story: str) -> None:
    hostile = await open_agent("m1")
    hello = Hello(cluster="m1", instance="x", at=1.0, fresh=True, session="s")
    await hostile.ask("hello.m1", msgspec.json.encode(hello))
    told = MemberRequested(cluster="m1", side="agent", by="x", user="anna", method="GET", path="/")
    body = msgspec.json.encode(Reported(requests=(told,), session="other"))
    answer = msgspec.json.decode(await hostile.ask("reports.m1", body), type=ReportedAnswer)
    assert answer.superseded
    assert await records(hub, "request.*.*") == []

"""An agent brings its member to what the works say, with and without the hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs

from schemas.agent import Hello
from schemas.topology import FACTS
from services.registrar import agent_requests as desk
from tests.integration.agent.conftest import KEY, LATE, OTHER, Agents, Hub, Member
from tests.support.waiting import eventually


async def test_a_work_is_delivered_changed_and_withdrawn(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    agents.start()
    first = await hub.render("m1", "one")
    assert (await hub.reports("m1", applied=True, digest=first.digest)).operation == "created"
    assert await member.text() == "one"
    await hub.render("m1", "two")
    await member.shows("two")
    await hub.withdraw("m1")
    await hub.reports("m1", absent=True)
    assert await member.text() is None


async def test_report_that_the_hub_cannot_judge_yet_is_sent_again(
    hub: Hub, member: Member, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "CATCH_UP_SECONDS", 0.0)
    await hub.join("m1")
    agents.start()
    await hub.render("m1", "one")
    await hub.reports("m1", applied=True)
    projection = hub.registrar.context.projection  # type: ignore[attr-defined]  # set by the fixture
    feed, held = projection.feed, []

    def hold(delivery: Any, stream: str = FACTS.name) -> None:
        if stream == FACTS.name:
            held.append(delivery)
        else:
            feed(delivery, stream)

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(projection, "feed", hold)
        second = await hub.render("m1", "two")
        await member.shows("two")
        await eventually(lambda: [each for each in logs if each["event"] == "reports_wait"], "a report that waits")
    for delivery in held:
        feed(delivery)
    await hub.reports("m1", applied=True, digest=second.digest)
    assert not [each for each in logs if each["event"] == "report_refused"]


async def test_blobs_of_any_size_are_fetched(
    hub: Hub, member: Member, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "CHUNK", 1 << 16)
    await hub.join("m1")
    await hub.render("m1", "large", inline=False, padding=900_000)
    await hub.render("m1", "small", key=OTHER, inline=False)
    agent = agents.start()
    await member.shows("large", "small")
    assert agent.term is not None
    assert agent.term.manifests.fetched == 2


async def test_works_of_another_cluster_are_not_seen(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await hub.join("m2")
    await hub.render("m2", "secret", key=OTHER)
    agent = agents.start()
    await hub.render("m1", "ours")
    await member.shows("ours")
    assert agent.term is not None
    assert set(agent.term.state.works.works) == {KEY}
    assert await member.text(OTHER) is None


async def test_an_agent_waits_for_its_cluster_to_be_joined(hub: Hub, member: Member, agents: Agents) -> None:
    agent = agents.start()
    await hub.render("m1", "early")
    await eventually(lambda: agent.term is not None and "no cluster m1" in agent.term.follower.trouble, "the refusal")
    await hub.join("m1", mode="Push")
    await eventually(
        lambda: agent.term is not None and "syncMode Push" in agent.term.follower.trouble, "the next refusal"
    )
    assert await member.text() is None
    await hub.join("m1")
    await member.shows("early")
    await eventually(lambda: agent.health.ready, "readiness")


async def greetings(hub: Hub) -> list[Hello]:
    """Heartbeats from now on."""
    heard: list[Hello] = []

    async def hear(message: Any) -> None:
        heard.append(msgspec.json.decode(message.data, type=Hello))

    await hub.connection.subscribe("hello.*", hear)
    return heard


async def test_heartbeats_carry_how_the_member_is_doing(hub: Hub, member: Member, agents: Agents) -> None:
    heard = await greetings(hub)
    await hub.join("m1")
    agents.start()
    await eventually(lambda: sum(not hello.fresh for hello in heard) > 1, "heartbeats")
    sample = heard[-1].sample
    assert sample is not None
    assert (sample.online, sample.healthy) == (True, True)
    assert sample.summary is not None
    assert {group["groupVersion"] for group in sample.summary["apiEnablements"]} >= {"v1", "apps/v1"}


async def test_silent_member_is_reported_while_it_lasts(hub: Hub, member: Member, agents: Agents) -> None:
    heard = await greetings(hub)
    await hub.join("m1")
    agent = agents.start(agent_lease_seconds=0.3)
    await eventually(lambda: agent.term is not None and agent.term.follower.reading, "works come")
    await member.server.stop()
    await eventually(lambda: heard[-1].sample is not None and not heard[-1].sample.online, "the first word of it")
    heard.clear()
    await eventually(lambda: len(heard) > 2, "more words of it, longer than the place in the member is certain")
    assert all(hello.sample is not None and not hello.sample.online and not hello.fresh for hello in heard)
    assert agent.term is not None
    assert {"turn", "member"} & set(agent.health.reasons())


async def test_an_agent_answers_questions_about_itself(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await hub.render("m1", "x")
    with capture_logs() as said:
        agent = agents.start(http_port=0)
        await eventually(
            lambda: agent.health.ready and agent.term is not None and agent.term.publisher.sent, "a report"
        )
    port = next(line["port"] for line in said if line["event"] == "listening")
    async with aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            document = await answer.json()
            assert (answer.status, document["acting"], document["reasons"]) == (200, True, {})
            assert document["position"] > 0
        async with http.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
    assert 'fleetlog_agent_reports_total{component="agent"} 1.0' in text
    assert 'fleetlog_lane_writes_total{component="agent",member_cluster="m1",operation="create"} 1.0' in text


async def test_member_and_hub_catch_up_after_an_outage(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await hub.render("m1", "kept", inline=False)
    await hub.render("m1", "goes", key=OTHER)
    agent = agents.start()
    await hub.reports("m1", OTHER, applied=True)
    before = await hub.reports("m1", applied=True)
    await member.shows("kept")
    hub.server.kill9()
    await eventually(lambda: not agent.link.is_connected, "the loss")
    await member.client.delete(member.path())
    await member.shows("kept")
    assert await member.text(OTHER) == "goes"
    assert not agent.health.ready
    hub.server.start()
    await hub.connection.wait_connected()
    await hub.withdraw("m1", OTHER)
    await hub.reports("m1", OTHER, absent=True)
    assert await member.text(OTHER) is None
    assert await member.text() == "kept"

    async def reported() -> Any:
        return (await hub.reports("m1")).member_uid != before.member_uid

    await eventually(reported, "the report of the restored object")
    await eventually(lambda: agent.health.ready, "readiness")


async def test_restart_without_the_hub_deletes_nothing(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await hub.render("m1", "inline")
    await hub.render("m1", "fetched", key=OTHER, inline=False)
    agent = agents.start()
    await member.shows("inline", "fetched")
    await agents.stop(agent)
    hub.server.stop()
    await member.client.delete(member.path())
    await member.client.delete(member.path(OTHER))
    agent = agents.start()
    await member.shows("inline", "fetched")
    assert not agent.link.is_connected
    hub.server.start()
    await eventually(lambda: agent.health.ready, "readiness")
    await member.shows("inline", "fetched")


async def test_saved_works_wait_for_the_hub_after_a_kill(
    hub: Hub, member: Member, agents: Agents, tmp_path: Path
) -> None:
    await hub.join("m1")
    await hub.render("m1", "one")
    await hub.render("m1", "kept", key=OTHER)
    agent = agents.start()
    await member.shows("one", "kept")
    await agents.stop(agent)
    saved = agents.directory / "data-m1-agent-0"
    shutil.copytree(saved, tmp_path / "saved")
    agent = agents.start()
    await hub.withdraw("m1")
    await hub.render("m1", "changed", key=OTHER)
    await hub.reports("m1", absent=True)
    await member.shows(None, "changed")
    await agents.stop(agent)
    # As after a kill before the last second of its life was saved.
    shutil.rmtree(saved)
    shutil.copytree(tmp_path / "saved", saved)
    agent = agents.start()
    await hub.render("m1", "new", key=LATE)
    await member.shows(None, "changed", "new")
    assert agent.term is not None
    stats = agent.term.lane.stats
    assert (stats.created, stats.updated, stats.deleted) == (1, 0, 0)


async def test_a_log_that_forgot_a_work_deletes_nothing(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    await hub.render("m1", "forgotten")
    agent = agents.start()
    await member.shows("forgotten")
    await agents.stop(agent)
    # The same cluster in a log that knows nothing of the work: as after a restore from an older copy.
    assert await hub.connection.request("$JS.API.STREAM.PURGE.FACTS", b'{"filter":"work.m1.>"}')
    agent = agents.start()
    await hub.render("m1", "new", key=OTHER)
    await member.shows("forgotten", "new")


async def test_new_membership_forgets_the_old_one(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1", uid="first")
    await hub.render("m1", "old")
    agent = agents.start()
    await member.shows("old")
    assert await hub.connection.request("$JS.API.STREAM.PURGE.FACTS", b'{"filter":"work.m1.>"}')
    await hub.join("m1", uid="second")
    await eventually(lambda: agent.term is not None and agent.term.state.uid == "second", "the new membership")
    assert agent.term is not None
    assert not agent.term.state.works.works
    assert await member.text() == "old"


async def test_one_of_two_agents_acts_and_the_other_takes_over(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    first = agents.start("agent-0")
    await eventually(lambda: first.term is not None, "the first one's turn")
    second = agents.start("agent-1")
    await eventually(lambda: "held by agent agent-0" in second.health.reasons().get("turn", ""), "the second one waits")
    assert second.term is None
    await agents.stop(first)
    await eventually(lambda: second.term is not None, "the second one's turn")
    await hub.render("m1", "after")
    await member.shows("after")


async def test_reports_wait_for_the_registrar(hub: Hub, member: Member, agents: Agents) -> None:
    await hub.join("m1")
    agent = agents.start()
    await eventually(lambda: agent.term is not None and agent.term.follower.reading, "works come")
    registrar: Any = hub.registrar  # type: ignore[attr-defined]  # set by the fixture
    await registrar.on_following()
    await hub.render("m1", "meanwhile")
    await member.shows("meanwhile")
    assert await hub.last_seen("m1") is None
    await registrar.on_leading()
    await hub.reports("m1", applied=True)

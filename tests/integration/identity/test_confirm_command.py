"""`fleetlog status` says what is held, and `fleetlog confirm-absence` records who let it pass."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import Known, decode, encode, subject_of
from schemas.events.cluster import ClusterChanged
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.lease import LeaseTaken
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.subjects import confirmation
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.stream_port import Log, NewMessage
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.logbook import LogAccess, streams
from services.cli.common.running import Failed
from services.cli.overview.confirm_absence import confirm
from services.cli.overview.status_command import status
from tests.natsserver import Server
from tests.support.waiting import eventually

KEY = ObjectKey("", "configmaps", "shop", "c1")
HELD = AbsenceHeld(
    scope="templates",
    reason="MassDisappearance",
    message="six are missing",
    since=1_793_232_000.0,
    identity="u1",
    expected="u1",
    kinds={"configmaps": 6},
    missing=("configmaps/shop/c1", "PropagationPolicy/shop/all"),
    digest="d",
)


async def store(facts: Log, *events: Known) -> None:
    for event in events:
        await facts.append([NewMessage(subject_of(event), encode(event), {})])


async def held(connection: Connection) -> Log:
    await topology.apply(connection)
    facts = streams(connection)["FACTS"]
    cluster = Raw(msgspec.json.encode({"spec": {"syncMode": "Push"}, "status": {"kubernetesVersion": "v1.31"}}))
    await store(
        facts,
        ControlPlaneIdentified(uid="u1", revision=7),
        ClusterChanged(name="m1", uid="c", manifest=cluster, identity="k1"),
        WorkRendered(cluster="m1", key=KEY, uid="t", api_version="v1", kind="ConfigMap", digest="x"),
        LeaseTaken(service="detector", instance="detector-0"),
        HELD,
    )
    return facts


async def test_the_page_says_what_is_held(
    connection: Connection, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    await held(connection)
    assert await status(LogAndControlOptions(nats=nats_server.url)) == 1
    shown = capsys.readouterr().out
    for words in (
        "Control plane: u1, revision 7",
        "HELD",
        "MassDisappearance",
        "missing: configmaps/shop/c1",
        "4 more",
    ):
        assert words in shown
    assert any(line.split()[:2] == ["m1", "Push"] for line in shown.splitlines())
    assert any(line.split()[:3] == ["detector", "silent", "detector-0"] for line in shown.splitlines())


async def test_without_a_terminal_nothing_is_confirmed_unless_told(
    connection: Connection, nats_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = await held(connection)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Failed, match="--yes"):
        await confirm(LogAccess(nats_server.url), (), yes=False)
    with pytest.raises(Failed, match="nothing is held in clusters"):
        await confirm(LogAccess(nats_server.url), ("clusters",), yes=True)
    assert await facts.last(confirmation("templates")) is None


async def test_a_confirmation_is_on_record_and_waits_for_the_release(
    connection: Connection, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = await held(connection)
    running = asyncio.create_task(confirm(LogAccess(nats_server.url), (), yes=True, note="moved on"))
    message = await eventually(lambda: facts.last(confirmation("templates")), "a confirmation")
    event = decode(message.subject, message.data)
    assert isinstance(event, AbsenceConfirmed)
    assert (event.held_at, event.count, event.identity, event.note) == (5, 6, "u1", "moved on")
    assert "@" in event.by
    assert not running.done()
    await store(facts, AbsenceReleased(scope="templates", reason="Confirmed", confirmation=message.seq))
    assert await running == 0
    assert "would withdraw 1 copies in 1 clusters" in capsys.readouterr().out

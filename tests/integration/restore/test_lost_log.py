"""A log that is lost and restored from an older export: members never see the older state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import decode
from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from schemas.subjects import RESTORES
from services._kit.base.log_errors import LogError, Unavailable
from services._rules.log.restore_order import BEFORE
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.running import Failed
from services.cli.log.export import export
from services.cli.log.import_marking import release
from services.cli.log.log_options import ExportChoice
from services.cli.log.restore_archive import Filling, import_log
from services.cli.log.verify import verify
from tests.integration.restore.fleets import (
    DEPLOYMENTS,
    MEMBERS,
    POLICIES,
    POLICY,
    World,
    deployment,
    is_over,
    scale,
    services,
)
from tests.integration.restore.fleets import world as made_world
from tests.natsserver import Server
from tests.support.waiting import comes_to, eventually


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with made_world(tmp_path / "world") as made:
        yield made


def everywhere(replicas: int) -> dict[str, int]:
    return dict.fromkeys(MEMBERS, replicas)


async def outlived(world: World, url: str, file: Path) -> None:
    """An export, and what happened between it and the loss of the log."""
    async with services(world, url):
        await world.control.create(POLICIES, POLICY)
        for name, replicas in (("web", 6), ("web2", 11), ("still", 2)):
            await world.control.create(DEPLOYMENTS, deployment(name, replicas))
            await comes_to(name, lambda name=name: world.replicas(name), everywhere(replicas))
        await export(LogAccess(url), file, ExportChoice())
        await scale(world.control, "web", 3)
        await world.control.delete(f"{DEPLOYMENTS}/web2")
        await world.control.create(DEPLOYMENTS, deployment("late", 4))
        await comes_to("web", lambda: world.replicas("web"), everywhere(3))
        await comes_to("web2", lambda: world.replicas("web2"), {})
        await comes_to("late", lambda: world.replicas("late"), everywhere(4))


async def restores(url: str) -> list[Any]:
    """The events of the restore on a log."""
    async with open_log(LogAccess(url)) as connection:
        facts = streams(connection)["FACTS"]
        return [decode(message.subject, message.data) async for message in facts.read([RESTORES])]


async def test_members_never_see_the_state_of_an_older_export(
    world: World, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "log.gz"
    await outlived(world, nats_server.url, file)
    nats_server.stop()
    uids = await world.uids()
    await import_log(LogAccess(other_server.url), file)
    started = (await restores(other_server.url))[0]
    assert isinstance(started, RestoreStarted)
    assert started.position > 0
    async with world.samplers() as samplers, services(world, other_server.url):
        await comes_to("the comparison", lambda: is_over(other_server.url))
        # Delivery goes on: what is asked for now arrives, behind all that was imported.
        await scale(world.control, "web", 5)
        await comes_to("web", lambda: world.replicas("web"), everywhere(5))
        await world.control.create(DEPLOYMENTS, deployment("after", 1))
        await comes_to("after", lambda: world.replicas("after"), everywhere(1))
        assert {key: uid for key, uid in (await world.uids()).items() if key[1] != "after"} == uids
        for member, sampler in samplers.items():
            seen = {(name, replicas) for _, name, replicas, _ in sampler.states}
            assert ("web", 6) not in seen, member
            assert "web2" not in {name for name, _ in seen}, member
            assert {name for kind, name, _, _ in sampler.states if kind == "DELETED"} == set()
            assert {replicas for name, replicas in seen if name in ("late", "still")} <= {4, 2}
    events = await restores(other_server.url)
    assert [event.service for event in events if isinstance(event, RestoreCompared)][-2:] == list(BEFORE)[-2:]
    assert {event.service for event in events if isinstance(event, RestoreCompared)} == set(BEFORE)
    assert await verify(LogAccess(other_server.url)) == 0


async def test_unlistable_kind_holds_delivery_until_released(
    world: World, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "log.gz"
    await outlived(world, nats_server.url, file)
    await import_log(LogAccess(other_server.url), file)
    async with world.samplers() as samplers, services(world, other_server.url, frozenset({"deployments"})) as running:
        detector = running["detector"]
        await eventually(lambda: "deployments.apps (" in detector.restoration.trouble, "the kind that is missing")
        assert "fleetlog log release" in detector.restoration.trouble
        assert "override_renderer" in running["executor"].restoration.trouble
        assert not await is_over(other_server.url)
        assert all(sampler.states == [] for sampler in samplers.values())
        assert await release(LogAccess(other_server.url)) == 0
        await comes_to("the older state, as a person decided", lambda: world.replicas("web"), everywhere(6))
    released = [event for event in await restores(other_server.url) if isinstance(event, RestoreReleased)]
    assert "detector" in released[0].missing
    with pytest.raises(Failed, match="no restore is under way"):
        await release(LogAccess(other_server.url))


async def test_no_service_starts_on_a_log_that_is_imported_in_part(
    world: World, nats_server: Server, other_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.gz"
    await outlived(world, nats_server.url, file)

    async def broken(self: Filling) -> None:
        raise Unavailable("the connection was lost")

    monkeypatch.setattr(Filling, "finish", broken)
    with pytest.raises(Unavailable):
        await import_log(LogAccess(other_server.url), file)
    with pytest.raises(LogError, match="an import did not finish"):
        async with services(world, other_server.url):
            pass

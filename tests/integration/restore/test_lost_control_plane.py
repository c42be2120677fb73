"""A control plane that is lost is written anew from the log; the members notice nothing of it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from schemas.codec import decode, encode
from schemas.envelope import HEADER_EVENT_ID
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld
from schemas.subjects import absence, confirmation
from services._kit.base.log_errors import LogReplaced
from services._kit.log.stream_port import NewMessage
from services.cli.backup.restore_control_plane import restore
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.log.import_marking import mark
from services.cli.log.verify import verify
from tests.integration.restore.fleets import (
    CLUSTERS,
    DEPLOYMENTS,
    MEMBERS,
    POLICIES,
    POLICY,
    SECRETS,
    World,
    allow,
    control_plane,
    deployment,
    is_over,
    scale,
    services,
)
from tests.integration.restore.fleets import world as made_world
from tests.natsserver import Server
from tests.support.waiting import comes_to, eventually

PASSWORD = {"password": base64.b64encode(b"of monday").decode()}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}, "data": PASSWORD}
LARGE = deployment("large", 2)
LARGE["metadata"]["annotations"] = {"example.com/notes": "n" * 10_000}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with made_world(tmp_path / "world") as made:
        yield made


async def fill(world: World, url: str) -> None:
    """Objects in the control plane and in the members."""
    async with services(world, url):
        await world.control.create(POLICIES, POLICY)
        await world.control.create(DEPLOYMENTS, deployment("web", 6))
        await world.control.create(DEPLOYMENTS, LARGE)
        await world.control.create(SECRETS, SECRET)
        await comes_to("web", lambda: world.replicas("web"), dict.fromkeys(MEMBERS, 6))
        await comes_to("large", lambda: world.replicas("large"), dict.fromkeys(MEMBERS, 2))
        await comes_to("key", lambda: holders(world), set(MEMBERS))


async def confirm(url: str, scope: str) -> None:
    """Accept the control plane that answers, once it is held for being another one."""
    async with open_log(LogAccess(url)) as connection:
        facts = streams(connection)["FACTS"]
        confirmed: set[int] = set()

        async def accepted() -> bool:
            found = await facts.last(absence(scope))
            if found is None or found.seq in confirmed:
                return False
            held = decode(found.subject, found.data)
            if not isinstance(held, AbsenceHeld):
                return bool(confirmed)
            assert held.reason == "IdentityChanged"
            # As more kinds are listed more is held, and has to be confirmed anew.
            event = AbsenceConfirmed(scope=scope, held_at=found.seq, by="a test", at=1.0, identity=held.identity)
            name = f"confirm-{scope}-{found.seq}"
            await facts.append([NewMessage(confirmation(scope), encode(event), {HEADER_EVENT_ID: name})])
            confirmed.add(found.seq)
            return False

        await eventually(accepted, f"the other control plane is accepted for {scope}")


async def holders(world: World) -> set[str]:
    return set(await world.held("key", SECRETS))


async def test_lost_control_plane_is_restored_from_the_log(
    world: World, nats_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(world, nats_server.url)
    uids = await world.uids()
    templates = {item["metadata"]["uid"] for item in (await world.control.get(DEPLOYMENTS))["items"]}
    access = LogAccess(nats_server.url)
    async with AsyncExitStack() as stack:
        world.control, world.kubeconfig = await control_plane(stack, tmp_path / "again")
        target = ControlPlaneOptions(str(world.kubeconfig))
        assert await restore(access, world.key_file, target, dry_run=True) == 0
        assert "2 Deployment" in capsys.readouterr().err
        assert (await world.control.get(DEPLOYMENTS))["items"] == []
        assert await is_over(nats_server.url)

        assert await restore(access, world.key_file, target, dry_run=False) == 0
        told = capsys.readouterr().err
        assert "Secret karmada-cluster/m1 holds credentials" in told
        assert not await is_over(nats_server.url)
        restored = {item["metadata"]["name"]: item for item in (await world.control.get(DEPLOYMENTS))["items"]}
        assert {name: item["spec"]["replicas"] for name, item in restored.items()} == {"web": 6, "large": 2}
        assert restored["large"]["metadata"]["annotations"]["example.com/notes"] == "n" * 10_000
        assert not templates & {item["metadata"]["uid"] for item in restored.values()}
        assert (await world.control.get(f"{SECRETS}/key"))["data"] == PASSWORD
        assert {item["metadata"]["name"] for item in (await world.control.get(CLUSTERS))["items"]} == set(MEMBERS)

        await allow(world.control)
        async with world.samplers() as samplers, services(world, nats_server.url):
            # It is another control plane, and only a person knows that it takes the place of the former.
            for scope in ("templates", "clusters"):
                await confirm(nats_server.url, scope)
            await comes_to("the comparison", lambda: is_over(nats_server.url))
            await scale(world.control, "web", 5)
            await comes_to("web", lambda: world.replicas("web"), dict.fromkeys(MEMBERS, 5))
            assert await world.uids() == uids
            for sampler in samplers.values():
                assert not [state for state in sampler.states if state[0] == "DELETED"]
                assert {(name, replicas) for _, name, replicas, _ in sampler.states} <= {
                    ("web", 6),
                    ("web", 5),
                    ("large", 2),
                }
        problems = await verify(access)
        assert problems == 0, capsys.readouterr().out


async def test_what_is_there_stays_and_what_cannot_be_read_is_named(
    world: World, nats_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(world, nats_server.url)
    async with AsyncExitStack() as stack:
        control, kubeconfig = await control_plane(stack, tmp_path / "again")
        await control.create(DEPLOYMENTS, deployment("web", 1))
        # Without the master keys a Secret cannot be read; everything else is written.
        assert await restore(LogAccess(nats_server.url), None, ControlPlaneOptions(str(kubeconfig)), dry_run=False) == 1
        told = capsys.readouterr().err
        assert "Secret secrets/default/key" in told or "default/key" in told
        assert "--secrets-key-file" in told
        assert "were there already and stay as they are" in told
        listed = (await control.get(DEPLOYMENTS))["items"]
        assert {item["metadata"]["name"]: item["spec"]["replicas"] for item in listed} == {"web": 1, "large": 2}
        assert (await control.get(SECRETS))["items"] == []


async def test_restore_stops_services_and_holds_delivery(world: World, nats_server: Server) -> None:
    await fill(world, nats_server.url)

    async def drift() -> None:
        for client in world.members.values():
            await client.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"app": "changed"}}})

    async def labels() -> set[str]:
        return {manifest["metadata"]["labels"]["app"] for manifest in (await world.held("web")).values()}

    async def begin(*, writing: bool) -> None:
        async with open_log(LogAccess(nats_server.url)) as connection:
            await mark(streams(connection)["FACTS"], "a test", writing=writing)

    async def running_at_first() -> None:
        async with services(world, nats_server.url) as running:
            await eventually(lambda: all(runner.active for runner in running.values()), "leaders")
            await drift()
            await comes_to("the repaired copies", labels, {"web"})
            await begin(writing=True)
            await eventually(lambda: not any(runner.active for runner in running.values()), "the end of all services")

    async def started_again() -> None:
        async with services(world, nats_server.url) as running:
            executor = running["executor"]
            await eventually(lambda: all(runner.active for runner in running.values()), "leaders")
            assert "before the command is done" in executor.health.document()["restoring"]
            assert executor.health.ready
            assert executor.service._lanes == {}
            await drift()
            await begin(writing=False)
            await eventually(lambda: not any(runner.active for runner in running.values()), "the end of all services")

    with pytest.raises(LogReplaced, match="a restore began at position"):
        await running_at_first()
    # They are started again, and compare nothing as long as the control plane is not whole.
    with pytest.raises(LogReplaced):
        await started_again()
    assert await labels() == {"changed"}
    async with services(world, nats_server.url):
        await comes_to("the repaired copies", labels, {"web"})

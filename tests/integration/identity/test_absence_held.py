"""What is missing after a restore, or in large numbers at once, stays until it is back or an operator confirms."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from schemas.events.cluster import ClusterRemoved
from schemas.events.control_plane import AbsenceReleased, ControlPlaneIdentified
from schemas.events.template import TemplateDeleted
from services._kit.kube.client import resource_path
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.integration.identity.ground import Endpoint, Ground, backup, ground
from tests.support.waiting import eventually

CONFIGMAPS = resource_path("", "v1", "configmaps", "shop")


async def copies(member: Endpoint, wanted: set[str]) -> None:
    async def shown() -> bool:
        return set(await member.held()) == wanted

    await eventually(shown, f"copies {sorted(wanted)}")


async def without(made: Ground, control: Endpoint, *names: str) -> MemoryStore:
    """A later state of the control plane's store in which objects are gone, without anybody having deleted them."""
    aside = await made.endpoint(backup(control))
    for name in names:
        await aside.client.delete(f"{CONFIGMAPS}/{name}")
    return backup(aside)


@pytest.mark.parametrize("written_since", [0, 100], ids=["behind", "further"])
async def test_objects_missing_after_a_restore_stay(tmp_path: Path, written_since: int) -> None:
    async with ground(tmp_path) as (made, control, member):
        old = backup(control)
        await control.make("late")
        await control.client.patch(f"{CONFIGMAPS}/c1", {"data": {"of": "changed"}})
        names = {*(f"c{number}" for number in range(10)), "late"}
        await copies(member, names)

        async def changed() -> bool:
            live = await member.client.get(f"{CONFIGMAPS}/c1")
            return bool(live["data"] == {"of": "changed"})

        await eventually(changed, "the changed copy")
        before = await member.held()
        restored = await made.restored(old)
        # Others may have written more since than was lost: the revision alone says nothing then.
        leases = resource_path("coordination.k8s.io", "v1", "leases", "shop")
        for number in range(written_since):
            await restored.client.create(leases, {"metadata": {"name": f"l{number}"}})
        made.lead("control", restored)
        made.proxy.cut()
        held, _ = await made.until_held(lambda held: bool(held.missing))
        assert held.reason == "RevisionWentBack"
        assert held.missing == ("configmaps/shop/late",)

        async def went_back() -> bool:
            live = await member.client.get(f"{CONFIGMAPS}/c1")
            return bool(live["data"] == {"of": "c1"})

        await eventually(went_back, "the state of the backup")
        assert await made.losses() == []
        # A start forgets nothing of it.
        await made.stop("detector")
        await made.detect()
        await eventually(lambda: made.services["detector"]._watching.state.guard.missing, "still held")
        await restored.make("late")
        await made.until_released()
        assert await member.held() == before
        assert not [fact for fact in await made.losses() if fact.provenance.as_of == 0]


async def test_many_missing_objects_are_held_until_confirmed(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        gone = [f"c{number}" for number in range(6)]
        lacking = await made.restored(await without(made, control, *gone))
        made.lead("control", lacking)
        made.proxy.cut()
        held, position = await made.until_held()
        assert held.reason == "MassDisappearance"
        assert held.kinds == {"configmaps": 6}

        async def told() -> bool:
            events = await lacking.client.get(resource_path("", "v1", "events", "default"))
            return any(item["reason"] == "WithdrawalsHeld" for item in events["items"])

        await eventually(told, "the Event about it")
        assert await made.losses() == []
        assert len(await member.held()) == 10
        assert made.runners["detector"].health.document()["withdrawals_held"] == 6
        await made.confirm(held, position)
        await copies(member, {f"c{number}" for number in range(6, 10)})
        await made.until_released()
        reasons = {fact.reason for fact in await made.losses() if isinstance(fact, TemplateDeleted)}
        assert len(reasons) == 1
        assert "confirmed by test" in reasons.pop()
        released = [fact for fact in await made.facts() if isinstance(fact, AbsenceReleased)]
        assert [fact.reason for fact in released] == ["Confirmed"]


async def test_a_confirmation_of_something_else_lets_nothing_pass(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        lacking = await made.restored(await without(made, control, *(f"c{number}" for number in range(6))))
        made.lead("control", lacking)
        made.proxy.cut()
        held, position = await made.until_held()
        await made.confirm(held, position - 1)
        await lacking.make("new")
        await copies(member, {*(f"c{number}" for number in range(10)), "new"})
        assert await made.losses() == []


async def test_deletions_that_the_control_plane_tells_of_flow_at_once(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        await asyncio.gather(*(control.client.delete(f"{CONFIGMAPS}/c{number}") for number in range(10)))
        await copies(member, set())
        assert await made.hold() is None
        reasons = {fact.reason for fact in await made.losses() if isinstance(fact, TemplateDeleted)}
        assert reasons == {"deleted from the control plane"}


async def test_confirmed_other_control_plane_takes_over(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, _, member):
        other = await made.endpoint()
        await apply_definitions(other.client, needed_definitions())
        await other.client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        made.lead("control", other)
        made.proxy.cut()
        held, position = await made.until_held(lambda held: {"configmaps", "PropagationPolicy"} <= held.kinds.keys())
        await made.until_held(lambda held: held.count == 1, "clusters")
        assert len(await member.held()) == 10
        await made.confirm(held, position)

        async def adopted() -> bool:
            identified = [fact for fact in await made.facts() if isinstance(fact, ControlPlaneIdentified)]
            return identified[-1].uid == await other.uid() and identified[-1].confirmation > position

        await eventually(adopted, "the other one is the control plane")
        await copies(member, set())
        await made.until_released()
        # What is missing in another scope waits for a confirmation of its own.
        held, position = await made.until_held(
            lambda held: held.reason != "IdentityChanged" and held.count > 0, "clusters"
        )
        assert held.reason == "MassDisappearance"
        assert not [fact for fact in await made.losses() if isinstance(fact, ClusterRemoved)]
        await made.confirm(held, position)
        await made.until_released("clusters")

        async def removed() -> bool:
            return [fact.name for fact in await made.losses() if isinstance(fact, ClusterRemoved)] == ["m1"]

        # What is released and what follows from that are decided one after the other.
        await eventually(removed, "the cluster is removed")

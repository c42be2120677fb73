"""Another cluster at a member's address gets nothing, loses nothing, and says nothing in the member's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas.codec import decode
from schemas.events.cluster import ClusterChanged
from schemas.subjects import cluster
from services._kit.kube.client import ApiError, resource_path
from tests.integration.identity.ground import Endpoint, Ground, ground
from tests.support.waiting import eventually


async def fact(made: Ground) -> ClusterChanged | None:
    message = await made.logs["FACTS"].last(cluster("m1"))
    event = decode(message.subject, message.data) if message is not None else None
    return event if isinstance(event, ClusterChanged) else None


async def condition(control: Endpoint, kind: str) -> dict[str, Any]:
    live = await control.client.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", "m1"))
    found = [item for item in live["status"]["conditions"] if item["type"] == kind]
    return found[0] if found else {}


async def objects(member: Endpoint) -> dict[str, str]:
    try:
        return await member.held()
    except ApiError:
        return {}


async def test_another_cluster_at_the_address_gets_and_loses_nothing(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        other = await made.endpoint()
        await other.client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        labels = {"karmada.io/managed": "true"}
        await other.client.create(
            resource_path("", "v1", "configmaps", "shop"), {"metadata": {"name": "theirs", "labels": labels}}
        )
        before, theirs = await member.held(), await objects(other)

        async def all_observed() -> bool:
            return (await made.logs["OBSERVED"].identity()).last_seq >= len(before)

        await eventually(all_observed, "an observation of each object")
        observed = (await made.logs["OBSERVED"].identity()).last_seq
        made.lead("member", other)
        made.member_proxy.cut()

        async def told() -> bool:
            known = await fact(made)
            return known is not None and known.stranger == await other.uid()

        await eventually(told, "the fact names the stranger")
        known = await fact(made)
        assert known is not None
        assert known.identity == await member.uid()
        await eventually(lambda: made.services["executor"]._lanes == {}, "no lane")

        async def not_ready() -> bool:
            return (await condition(control, "Ready")).get("reason") == "ClusterIdentityChanged"

        await eventually(not_ready, "the Ready condition")
        assert (await condition(control, "IdentityConfirmed"))["status"] == "False"
        held, _ = await made.until_held(scope="member/m1")
        assert (held.identity, held.expected) == (await other.uid(), await member.uid())
        await control.client.delete(resource_path("", "v1", "configmaps", "shop", "c3"))
        await control.make("late")
        assert await objects(other) == theirs
        assert (await made.logs["OBSERVED"].identity()).last_seq == observed
        made.lead("member", member)
        made.member_proxy.cut()
        await made.until_released("member/m1")
        wanted = {*before, "late"} - {"c3"}

        async def carried_out() -> bool:
            return set(await member.held()) == wanted

        await eventually(carried_out, "what was said meanwhile")
        after = await member.held()
        assert all(after[name] == before[name] for name in wanted - {"late"})
        assert await objects(other) == theirs


async def test_confirmed_other_cluster_becomes_the_member(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        other = await made.endpoint()
        made.lead("member", other)
        made.member_proxy.cut()
        held, position = await made.until_held(scope="member/m1")
        assert await objects(other) == {}
        await made.confirm(held, position)

        async def delivered() -> bool:
            return set(await objects(other)) == {f"c{number}" for number in range(10)}

        await eventually(delivered, "copies in the new cluster")
        await made.until_released("member/m1")
        live = await control.client.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", "m1"))
        assert live["spec"]["id"] == await other.uid()
        assert len(await member.held()) == 10

"""Faults of a log that three servers keep: leaders change, a server dies, is cut off, or both at once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from services._kit.base.log_errors import LogError
from tests.faults.ground_three import ThreeNodes
from tests.faults.leading import leaders, primaries_lead, ready
from tests.faults.scene import Scene
from tests.natscluster import Cluster, Node

CHANGES = 3
"""Times that every leader steps down in one round."""
ELECTION = 10.0
"""Seconds in which the others have noticed that a server is away and have elected leaders among themselves."""
KILLED_SECONDS = 3.0
_PAUSE = 1.0
_PATIENCE = 60.0


def cluster_of(scene: Scene) -> Cluster:
    """The log's servers."""
    ground = scene.ground
    assert isinstance(ground, ThreeNodes)
    return ground.cluster


async def streams(scene: Scene) -> list[str]:
    """Names of all streams."""
    answer = await _ask(scene, "STREAM.NAMES")
    return list(answer.get("streams") or ())


async def leader_of(scene: Scene, stream: str) -> str:
    """Server that leads a stream, empty when there is none."""
    try:
        answer = await _ask(scene, f"STREAM.INFO.{stream}")
    except LogError:
        return ""
    return str(((answer.get("cluster")) or {}).get("leader", ""))


async def _ask(scene: Scene, call: str) -> dict[str, Any]:
    return msgspec.json.decode(await scene.eyes.ask(f"$JS.API.{call}"), type=dict[str, Any])


async def step_down(scene: Scene) -> int:
    """Have the leader of every stream and of the servers themselves step down; how many did."""
    calls = [f"STREAM.LEADER.STEPDOWN.{name}" for name in await streams(scene)]

    async def ask(call: str) -> bool:
        try:
            return bool((await _ask(scene, call)).get("success"))
        except LogError:
            return False  # It has no leader that could.

    return sum(await asyncio.gather(*(ask(call) for call in (*calls, "META.LEADER.STEPDOWN"))))


async def _changes(scene: Scene) -> None:
    changed = 0
    for _ in range(CHANGES):
        changed += await step_down(scene)
        await asyncio.sleep(_PAUSE)
    scene.outcome.notes.append(f"{changed} leaders stepped down")
    if not changed:
        scene.outcome.complaints.append("no leader stepped down")


async def leader_change(scene: Scene) -> None:
    """The leaders of all streams and of the cluster step down, several times under load."""
    await primaries_lead(scene)
    before = await leaders(scene)
    await scene.under_load(lambda: _changes(scene))
    await nobody_took_over(scene, before)


async def leader_change_two_instances(scene: Scene) -> None:
    """The same with a second instance of every service beside."""
    await ready(scene)
    before = await leaders(scene)
    await scene.under_load(lambda: _changes(scene))
    await nobody_took_over(scene, before)


async def node_killed(scene: Scene) -> None:
    """kill -9 of one server, the leader of FACTS or another one; it comes back a few seconds later."""
    await primaries_lead(scene)
    cluster = cluster_of(scene)
    victim = await _victim(scene, cluster)

    async def kill() -> None:
        await asyncio.to_thread(victim.kill9)
        await asyncio.sleep(KILLED_SECONDS)
        await asyncio.to_thread(cluster.heal)

    await scene.under_load(kill)


async def node_partitioned(scene: Scene) -> None:
    """One server is cut off from the others for longer than an election; its clients still reach it."""
    await primaries_lead(scene)
    cluster = cluster_of(scene)
    victim = await _victim(scene, cluster)
    silently = scene.chance.random() < 0.5

    async def cut() -> None:
        await asyncio.to_thread(cluster.cut_off, victim, silently=silently)
        await asyncio.sleep(ELECTION)
        await asyncio.to_thread(cluster.heal)

    scene.outcome.notes.append("silently" if silently else "connections broken")
    await scene.under_load(cut)


async def no_quorum(scene: Scene) -> None:
    """One server is dead and another one cut off: nothing can be stored until both are back."""
    await primaries_lead(scene)
    cluster = cluster_of(scene)
    before = await leaders(scene)
    killed = await _victim(scene, cluster)
    cut_off = scene.chance.choice([node for node in cluster.nodes if node is not killed])

    async def kill_and_cut() -> None:
        await asyncio.to_thread(cluster.cut_off, cut_off, silently=True)
        await asyncio.to_thread(killed.kill9)
        await asyncio.sleep(ELECTION)
        await asyncio.to_thread(cluster.heal)

    scene.outcome.notes.append(f"{cut_off.name} cut off")
    await scene.under_load(kill_and_cut)
    await nobody_took_over(scene, before)


async def _victim(scene: Scene, cluster: Cluster) -> Node:
    """A server drawn at random, every other time the one that leads FACTS."""
    leader = await leader_of(scene, "FACTS")
    leads = scene.chance.random() < 0.5
    name = leader if leads and leader else scene.chance.choice([node.name for node in cluster.nodes])
    scene.outcome.notes.append(f"{name}{', leader of FACTS,' if name == leader else ''} away")
    return next(node for node in cluster.nodes if node.name == name)


async def nobody_took_over(scene: Scene, before: dict[str, str]) -> None:
    """The log's trouble is no reason for a service to take over from another, or for a process to die."""
    now: dict[str, str] = {}

    async def look() -> bool:
        now.update(await leaders(scene))
        return True

    await scene.wait("the leases can be read", look, _PATIENCE)
    scene.outcome.complaints += [
        f"{name}: {before[name]} led, then {now.get(name)}" for name in before if now.get(name) != before[name]
    ]

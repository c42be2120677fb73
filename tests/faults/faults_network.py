"""Faults: the agent of a pull member loses its network to the hub, for long or again and again."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from schemas.keys import ObjectKey
from services._kit.kube.client import resource_path
from tests.faults.checker import Audits
from tests.faults.ground_network import GRACE, HEARTBEAT, Faraway
from tests.faults.rounds_load import Step
from tests.faults.scene import Scene

AWAY_SECONDS: Final = 120.0
FLAPS: Final = 4
FLAP_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
_STRAY: Final = "nginx:stray"


def _ground(scene: Scene) -> tuple[Faraway, str]:
    assert isinstance(scene.ground, Faraway)
    return scene.ground, scene.fleet.installation.pull_members[0].name


async def partitioned(scene: Scene) -> None:
    """Two minutes without the hub: it keeps its member as it knew it last, and deletes nothing."""
    ground, member = _ground(scene)
    cut = scene.outcome.number % 2 == 0
    await scene.under_load()
    load = scene.load
    keep, drift, gone = (f"kept-{what}" for what in ("deleted", "edited", "lost"))
    for name in (keep, drift, gone):
        await load.add(name, "everywhere", Step("create", 2, "nginx:1.20"))
    scene.outcome.complaints += await scene.settle()
    held = await _held(scene, member)
    before = await scene.eyes.last_seq()
    audits = Audits({member: scene.fleet.layout.audit(member)})
    await asyncio.to_thread(ground.away, cut)
    ends = time.monotonic() + AWAY_SECONDS
    await scene.wait(f"{member} is Unknown", lambda: scene.shown(member, "Unknown"))
    await _changes(scene, keep)
    await _by_hand(scene, member, drift, gone)
    silent = await _stays(scene, member, held, {drift, gone}, ends)
    scene.outcome.complaints += silent
    scene.outcome.complaints += [
        f"{member}: {record['verb']} of {record['name']} though nobody asked for it"
        for _, record in audits.ours()
        if record["verb"] == "delete" or record["name"] not in (drift, gone)
    ]
    await asyncio.to_thread(ground.back)
    since = time.monotonic()
    await scene.wait(f"{member} is Ready", lambda: scene.shown(member, "True"))
    back = time.monotonic() - since
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += await _evictions(scene, before)
    how = "connections cut" if cut else "everything held back"
    scene.outcome.notes.append(f"{how} for {AWAY_SECONDS:.0f} s, Ready after {back:.1f} s")


async def flapping(scene: Scene) -> None:
    """5 s away and 5 s back, four times, under load."""
    ground, member = _ground(scene)
    before = await scene.eyes.last_seq()
    lost = 0

    async def flap() -> None:
        nonlocal lost
        for number in range(FLAPS):
            await asyncio.to_thread(ground.away, bool(number % 2))
            ends = time.monotonic() + FLAP_SECONDS
            seen = False
            while time.monotonic() < ends:
                seen = seen or await scene.shown(member, "Unknown")
                await asyncio.sleep(LOOK_SECONDS / 2)
            lost += seen
            await asyncio.to_thread(ground.back)
            ends = time.monotonic() + FLAP_SECONDS
            await scene.wait(f"{member} is Ready", lambda: scene.shown(member, "True"))
            await scene.nudge()
            await asyncio.sleep(max(0.0, ends - time.monotonic()))

    await scene.under_load(flap, at=0.1)
    scene.outcome.complaints += await scene.settle()
    await scene.wait(f"{member} is Ready", lambda: scene.shown(member, "True"))
    scene.outcome.complaints += await _evictions(scene, before)
    if not lost:
        away = f"{FLAP_SECONDS:g} s away, {GRACE:g} s of grace, {HEARTBEAT:g} s between heartbeats"
        scene.outcome.complaints.append(f"{member} was never shown as Unknown: {away}")
    scene.outcome.notes.append(f"{FLAPS} times away, {lost} times shown as Unknown")


async def _changes(scene: Scene, keep: str) -> None:
    """The hub goes on meanwhile: scales, rolls, deletes and creates, what the silent member holds among it."""
    load, chance = scene.load, scene.chance
    names = [name for name, wanted in load.wanted.items() if wanted.replicas and not name.startswith("kept-")]
    for name in chance.sample(names, min(6, len(names))):
        step = chance.choice(
            (Step("scale", chance.randint(1, 3), ""), Step("roll", 0, f"nginx:3.{chance.randint(0, 99)}"))
        )
        await load.step(name, step)
    for name in chance.sample(names, min(2, len(names))):
        await load.step(name, Step("delete", 0, ""))
    await load.step(keep, Step("delete", 0, ""))
    await load.add("made-meanwhile", "everywhere", Step("create", 1, "nginx:1.21"))


async def _by_hand(scene: Scene, member: str, drift: str, gone: str) -> None:
    """Somebody edits one object of the member and deletes another."""
    client, namespace = scene.eyes.members[member], scene.namespace
    container = {"name": "main", "image": _STRAY}
    await client.patch(_path(namespace, drift), {"spec": {"template": {"spec": {"containers": [container]}}}})
    await client.delete(_path(namespace, gone), propagation="Background")
    for name in (drift, gone):
        scene.by_hand[member, ObjectKey("apps", "deployments", namespace, name)] = 1


async def _stays(
    scene: Scene, member: str, held: dict[str, tuple[str, int, str]], disturbed: set[str], ends: float
) -> list[str]:
    """Until time is up nothing that was held goes; what was disturbed is as it was within moments, and stays so."""
    repaired = 0.0
    complaints: list[str] = []
    while time.monotonic() < ends and not complaints:
        now = await _held(scene, member)
        complaints = [
            f"{member}: {name} was {held[name]}, and while the hub was silent {now.get(name)}"
            for name in held
            if name not in disturbed and now.get(name) != held[name]
        ]
        wrong = {name for name in disturbed if now.get(name, ("", 0, ""))[1:] != held[name][1:]}
        if wrong and repaired:
            complaints.append(f"{member}: {sorted(wrong)} did not stay repaired")
        if not wrong and not repaired:
            repaired = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)
    if not repaired:
        complaints.append(f"{member}: {sorted(disturbed)} were not repaired while the hub was silent")
    if await scene.shown(member, "True"):
        complaints.append(f"{member} is shown as Ready though nobody heard of it")
    return complaints


async def _held(scene: Scene, member: str) -> dict[str, tuple[str, int, str]]:
    """Deployments of the member: uid, replicas, image."""
    found = await scene.eyes.members[member].get(_path(scene.namespace))
    return {
        item["metadata"]["name"]: (
            item["metadata"]["uid"],
            item["spec"]["replicas"],
            item["spec"]["template"]["spec"]["containers"][0]["image"],
        )
        for item in found["items"]
    }


async def _evictions(scene: Scene, before: int) -> list[str]:
    """Without failover nothing is evicted, however long a member is not heard."""
    return [
        f"FACTS {message.seq}: {message.subject} was evicted from a member that was only silent"
        for message in await scene.eyes.messages("FACTS", ("eviction.>",))
        if message.seq > before
    ]


def _path(namespace: str, name: str = "") -> str:
    return resource_path("apps", "v1", "deployments", namespace, name)

"""Faults: the wall clocks of all processes, or of one, are set by an hour under load, and set right again.

Those of the simulated members are left alone: they stand for clusters with machines of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from schemas.codec import Known, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.lease import LeaseTaken
from services.cli.common.layout import CONTROL, agent_process
from services.cli.installation.process_groups import GROUPS
from tests.faults.ground_clock import Clocks
from tests.faults.leading import primaries_lead
from tests.faults.scene import Scene

HOUR: Final = 3600
_FAILING_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 1.5
"""Longer than services wait before they look at their clocks again."""
_AGES: Final = ("<invalid>", "<unknown>")


async def forward(scene: Scene) -> None:
    """Every clock jumps ahead by an hour."""
    await _stepped(scene, _ours(scene), HOUR)


async def back(scene: Scene) -> None:
    """Every clock jumps back by an hour."""
    await _stepped(scene, _ours(scene), -HOUR)


async def one_service(scene: Scene) -> None:
    """The clock of one process jumps, ahead or back: of services, of the agent, or of an API server."""
    agents = [agent_process(member.name) for member in scene.fleet.installation.pull_members]
    chosen = (*GROUPS, "status_aggregator", *agents, "executor", CONTROL)
    name = chosen[(scene.outcome.number - 1) % len(chosen)]
    await _stepped(scene, [name], scene.chance.choice((HOUR, -HOUR)))


def _clocks(scene: Scene) -> Clocks:
    assert isinstance(scene.ground, Clocks)
    return scene.ground


def _ours(scene: Scene) -> list[str]:
    return [name for name in _clocks(scene).names if name not in ("up", *scene.fleet.members)]


async def _stepped(scene: Scene, names: list[str], ahead: int) -> None:
    """Clocks are set while writes to a member fail and are tried again; one process starts anew with the wrong time."""
    ground = _clocks(scene)
    await primaries_lead(scene)
    before = await scene.eyes.last_seq()
    victim = scene.chance.choice([name for name in names if name != CONTROL] or names)
    pids = {name: scene.fleet.pid(name) for name in names}

    async def step() -> None:
        await scene.member("member1", mode="refuse", status=500, verbs=["create", "update", "patch", "delete"])
        await asyncio.sleep(_FAILING_SECONDS)
        ground.set_clocks(names, ahead)
        await scene.member("member1", mode="none")

    await scene.under_load(step, at=0.4)
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += await _ages(scene)
    # Once more while nothing moves: what is alive only now and then must not look dead meanwhile.
    ground.set_clocks(names, 2 * ahead)
    await asyncio.sleep(_QUIET_SECONDS)
    scene.fleet.kill(victim)
    await scene.nudge()
    scene.outcome.complaints += await scene.settle()
    ground.set_clocks(names, 0)
    await scene.nudge()
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += await _ages(scene)
    scene.outcome.complaints += await _unmoved(scene, before, {victim, *_parts(victim)})
    scene.outcome.complaints += [
        f"{name} did not live through it"
        for name, pid in pids.items()
        if name != victim and scene.fleet.pid(name) != pid
    ]
    what = names[0] if len(names) == 1 else f"all {len(names)} clocks"
    scene.outcome.notes.append(f"{what} {ahead:+d} s twice, restarted {victim}")


async def _unmoved(scene: Scene, before: int, restarted: set[str]) -> list[str]:
    """Nothing was evicted, no cluster looked lost, and nobody took a lease but a service that started anew."""
    complaints = []
    for message in await scene.eyes.messages("FACTS", ("eviction.>", "cluster.*", "lease.*")):
        event: Known = decode(message.subject, message.data)
        if message.seq <= before:
            continue
        if message.subject.startswith("eviction."):
            complaints.append(f"FACTS {message.seq}: {message.subject}: evicted because a clock was set")
        elif isinstance(event, ClusterChanged) and (ready := _ready(event)) != "True":
            complaints.append(f"FACTS {message.seq}: {event.name} became {ready} because a clock was set")
        elif isinstance(event, LeaseTaken) and event.service not in restarted:
            complaints.append(f"FACTS {message.seq}: {event.instance} took the lease: {event.reason}")
    return complaints


def _parts(process: str) -> Iterable[str]:
    """Services that start anew with a process."""
    return GROUPS.get(process, ())


def _ready(event: ClusterChanged) -> str:
    status = msgspec.json.decode(event.manifest).get("status") or {}
    found = [entry["status"] for entry in status.get("conditions") or () if entry["type"] == "Ready"]
    return found[0] if found else ""


async def _ages(scene: Scene) -> list[str]:
    """Bindings have ages that can be read; those of stored objects are the API server's, wrong for as long as it is."""
    kubectl = scene.fleet.kubectl()
    text = await asyncio.to_thread(kubectl.run, "get", "resourcebindings", namespace=scene.namespace)
    return [f"an age is not sane: {line}" for line in text.splitlines() if any(word in line for word in _AGES)]

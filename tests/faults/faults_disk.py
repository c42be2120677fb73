"""Faults of the log's disk: full under load, with room again later."""

from __future__ import annotations

import asyncio

from services.cli.up import SERVICES
from tests.faults.ground_disk import SmallDisk
from tests.faults.scene import Scene

FULL_SECONDS = 6.0
_PATIENCE = 30.0


def disk_of(scene: Scene) -> SmallDisk:
    """The installation's small disk."""
    assert isinstance(scene.ground, SmallDisk)
    return scene.ground


async def full(scene: Scene) -> None:
    """The disk fills up under load; services say so; there is room again later, and everything goes on by itself."""
    ground = disk_of(scene)
    pids = {name: scene.fleet.pid(name) for name in SERVICES}

    async def fill() -> None:
        await asyncio.to_thread(ground.fill)
        await scene.wait("it is told that the log does not take events", told, _PATIENCE)
        await asyncio.sleep(FULL_SECONDS)
        await asyncio.to_thread(ground.free)

    said = len(scene.fleet.printed())

    async def told() -> bool:
        # Something has to be stored for a service to notice; where the API server stores nothing, nobody has anything.
        by_services = any("cannot write" in complaint for complaint in await scene.eyes.busy())
        return by_services or "cannot write" in scene.fleet.printed()[said:]

    await scene.under_load(fill)
    scene.outcome.complaints += [
        f"{name} did not live through it" for name, pid in pids.items() if scene.fleet.pid(name) != pid
    ]

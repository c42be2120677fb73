"""Faults: `fleetlog up` alone is killed; an API server is killed and the log while it reads its objects again."""

from __future__ import annotations

import asyncio
import signal

from services.cli.common.layout import CONTROL
from tests.faults.chaos.machine import Breakable
from tests.faults.scene import Scene


async def parent_killed(scene: Scene) -> None:
    """kill -9 of the supervisor under load; its children end or are taken over by the next one, and it starts."""
    ground = scene.ground
    assert isinstance(ground, Breakable)

    async def kill() -> None:
        await asyncio.to_thread(ground.mortal.kill_parent)
        await asyncio.sleep(scene.chance.uniform(0.2, 2.0))
        refused = await asyncio.to_thread(ground.mortal.again)
        if refused:
            scene.outcome.complaints.append(f"`fleetlog up` did not start after it was killed: {refused[-600:]}")

    await scene.under_load(kill)
    await scene.reopen()


async def server_and_log_killed(scene: Scene) -> None:
    """An API server dies, and while it starts again and reads its objects, its log."""
    victims = [CONTROL, *scene.fleet.members]
    victim = victims[scene.outcome.number % len(victims)]
    pause = scene.chance.uniform(0.1, 1.5)
    scene.outcome.notes.append(f"{victim}, nats {pause:.2f} s later, nats again")

    async def kill() -> None:
        scene.ground.signal(victim, signal.SIGKILL)
        await asyncio.sleep(pause)
        scene.ground.signal("nats", signal.SIGKILL)
        await asyncio.sleep(scene.chance.uniform(0.3, 1.0))
        scene.ground.signal("nats", signal.SIGKILL)

    await scene.under_load(kill)

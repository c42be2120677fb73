"""Faults: the agent of a pull member dies, or stands still again and again."""

from __future__ import annotations

import asyncio
import signal

from services.cli.common.layout import agent_process
from tests.faults.scene import Scene

_FROZEN_SECONDS = 1.5
_TIMES = 3


async def killed(scene: Scene) -> None:
    """kill -9 of the agent, twice."""
    name = agent_process(scene.fleet.installation.pull_members[0].name)

    async def kill() -> None:
        scene.ground.signal(name, signal.SIGKILL)

    scene.outcome.notes.append(f"killed {name} twice")
    await scene.under_load(kill, kill)


async def frozen(scene: Scene) -> None:
    """The agent stands still and goes on, several times."""
    name = agent_process(scene.fleet.installation.pull_members[0].name)

    async def flap() -> None:
        for _ in range(_TIMES):
            scene.ground.signal(name, signal.SIGSTOP)
            await asyncio.sleep(_FROZEN_SECONDS)
            scene.ground.signal(name, signal.SIGCONT)
            await asyncio.sleep(_FROZEN_SECONDS / 3)

    scene.outcome.notes.append(f"{name} stood still {_TIMES} times")
    await scene.under_load(flap)

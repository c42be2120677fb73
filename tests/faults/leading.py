"""Who leads, and faults of two instances: the leader is killed, or frozen and thawed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable

from tests.faults.scene import Scene
from tests.faults.standbys import LEADING

_START_SECONDS = 90.0
"""Ten processes start at once, beside other installations."""


async def leaders(scene: Scene) -> dict[str, str]:
    """Instance that leads, by service."""
    return {name: instance for name, (instance, _) in (await scene.eyes.leases(LEADING)).items()}


async def primaries_lead(scene: Scene) -> None:
    """Have the installation's own instances lead; further ones are stopped."""
    if not scene.ground.standbys.present:
        return
    await asyncio.to_thread(scene.ground.standbys.stop)
    await _lead(scene, "0", LEADING)


async def _lead(scene: Scene, number: str, services: Iterable[str]) -> None:
    async def look() -> bool:
        now = await leaders(scene)
        return all(now.get(name) == f"{name}-{number}" for name in services)

    await scene.wait(f"instances {number} lead", look)


async def ready(scene: Scene) -> None:
    """Second instances run and have caught up."""
    standbys = scene.ground.standbys
    await asyncio.to_thread(standbys.start)
    scene.eyes.beside = dict(standbys.ports)

    async def look() -> bool:
        return not [
            complaint for complaint in await scene.eyes.busy() if "not ready" in complaint or "Cannot" in complaint
        ]

    await scene.wait("second instances are ready", look, _START_SECONDS)


def _signal(scene: Scene, service: str, instance: str, number: signal.Signals) -> None:
    if instance.endswith("-1"):
        scene.ground.standbys.signal(service, number)
    else:
        scene.ground.signal(service, number)


async def _taken_over(scene: Scene, before: dict[str, str], since: float, what: str) -> None:
    """Wait until others lead, and note how long it took."""

    async def look() -> bool:
        now = await leaders(scene)
        return all(now.get(name) != before[name] for name in before)

    await scene.wait("the other instances lead", look)
    taken = [at - since for _, at in (await scene.eyes.leases(before)).values()]
    scene.outcome.takeovers += taken
    scene.outcome.notes.append(f"{what}: takeover of {len(taken)} within {min(taken):.1f} to {max(taken):.1f} s")


async def zombie(scene: Scene, seconds: float = 3.0) -> None:
    """All leaders are frozen; once the others lead and have worked for a while, the frozen ones wake up."""
    await ready(scene)
    before = await leaders(scene)

    async def freeze() -> None:
        since = time.time()
        for name, instance in before.items():
            _signal(scene, name, instance, signal.SIGSTOP)
        await _taken_over(scene, before, since, f"frozen {seconds:g} s")
        await asyncio.sleep(max(0.0, since + seconds - time.time()))
        for name, instance in before.items():
            _signal(scene, name, instance, signal.SIGCONT)

    await scene.under_load(freeze)


async def long_zombie(scene: Scene) -> None:
    """The same, frozen for 30 s."""
    await zombie(scene, 30.0)


async def killed(scene: Scene) -> None:
    """The leader of every service dies of kill -9 and stays away while the other takes over."""
    await ready(scene)
    before = await leaders(scene)
    mine = [name for name, instance in before.items() if instance.endswith("-0")]
    # A supervisor starts its own instance again within moments: the one to kill is the other.
    for name in mine:
        scene.ground.signal(name, signal.SIGSTOP)
    await _lead(scene, "1", before)
    for name in mine:
        scene.ground.signal(name, signal.SIGCONT)
    before = await leaders(scene)

    async def kill() -> None:
        since = time.time()
        for name in before:
            scene.ground.standbys.signal(name, signal.SIGKILL)
        await _taken_over(scene, before, since, "kill -9")

    await scene.under_load(kill)


async def restarted(scene: Scene) -> None:
    """The leader of every service dies of kill -9 and is started again at once, beside a standby."""
    await primaries_lead(scene)
    await ready(scene)
    before = await scene.eyes.leases(LEADING)

    async def kill() -> None:
        since = time.time()
        for name in before:
            scene.ground.signal(name, signal.SIGKILL)

        async def look() -> bool:
            now = await scene.eyes.leases(before)
            # Where another had taken over a moment before, nobody died.
            return all(now[name][1] > before[name][1] for name in before)

        await scene.wait("every service has a new lease", look)
        taken = [at - since for _, at in (await scene.eyes.leases(before)).values()]
        scene.outcome.takeovers += taken
        scene.outcome.notes.append(f"kill -9 and restart: leading again within {min(taken):.1f} to {max(taken):.1f} s")

    await scene.under_load(kill)

"""Faults of shard groups: an instance that shares the work dies or freezes, comes and goes, or divides it otherwise."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from schemas.envelope import HEADER_PRODUCER
from schemas.shard_groups import SHARED, group_name, service_of
from schemas.subjects import escape
from tests.faults.ground import Ground
from tests.faults.scene import Scene
from tests.faults.standbys import Standbys

GROUPS = 2
TAKEOVER_AFTER = 2.0
"""As where nobody sets it."""
_START_SECONDS = 90.0
_ROUNDS_OF_MOVES = 3
NAMES = {service: [group_name(service, index) for index in range(GROUPS)] for service in SHARED}


class Sharing(Ground):
    """An installation whose services share their work in two groups; its second instances do so, too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.standbys = Standbys(self.fleet, TAKEOVER_AFTER, {"FLEETLOG_SHARD_GROUPS": str(GROUPS)})
        self.whole = Standbys(self.fleet, TAKEOVER_AFTER, {}, number=2)
        """Instances that do not divide the work."""

    def environment(self) -> dict[str, str]:
        """Settings of every service."""
        return {
            **super().environment(),
            "FLEETLOG_SHARD_GROUPS": str(GROUPS),
            "FLEETLOG_TAKEOVER_AFTER": str(TAKEOVER_AFTER),
        }

    def heal(self) -> None:
        """Take every fault back."""
        self.whole.stop()
        super().heal()

    def stop(self) -> None:
        """Stop it."""
        self.whole.stop()
        super().stop()


async def _leaders(scene: Scene, service: str) -> list[str]:
    """Instances that lead the groups of a service, in their order."""
    found = await scene.eyes.leases(NAMES[service])
    return [found[name][0] for name in NAMES[service] if name in found]


async def _all(scene: Scene, what: str, right: Callable[[str, list[str]], bool]) -> None:
    """Wait until the leaders of every shared service are right."""

    async def look() -> bool:
        return all([right(service, await _leaders(scene, service)) for service in SHARED])

    await scene.wait(what, look, _START_SECONDS)


async def _shared(scene: Scene) -> None:
    """Both instances of every service run, and each leads one group."""
    standbys = scene.ground.standbys
    await asyncio.to_thread(standbys.start, SHARED)
    scene.eyes.beside = dict(standbys.ports)
    both = {service: {f"{service}-0", f"{service}-1"} for service in SHARED}
    await _all(scene, "both instances lead one group each", lambda service, now: set(now) == both[service])


async def _moved(scene: Scene, since: float, what: str, left: str) -> list[str]:
    """Wait until none of the instances with this number leads, note how long it took; the groups that moved."""
    before = {name: await _held(scene, name, left) for names in NAMES.values() for name in names}
    await _all(scene, f"others than {left} lead", lambda service, now: f"{service}-{left}" not in now)
    moved = [name for name, held in before.items() if held]
    taken = [at - since for _, at in (await scene.eyes.leases(moved)).values()]
    if taken:
        scene.outcome.takeovers += taken
        scene.outcome.notes.append(f"{what}: {len(taken)} groups moved within {min(taken):.1f} to {max(taken):.1f} s")
    return moved


async def _at_work(scene: Scene, since: float, moved: Iterable[str]) -> None:
    """Note when the first report of a cluster was stored whose group had moved by then, if there was any work."""
    heirs = {f"{name}/{service_of(name)}-0" for name in moved}
    reports = await scene.eyes.messages("OBSERVED", (f"observed.*.*.{escape(scene.namespace)}.*",))
    stored = [report.time - since for report in reports if report.headers.get(HEADER_PRODUCER) in heirs]
    if first := [seconds for seconds in stored if seconds > 0]:
        scene.outcome.notes.append(f"first report of a moved group after {min(first):.1f} s")


async def _held(scene: Scene, name: str, number: str) -> bool:
    found: Mapping[str, tuple[str, float]] = await scene.eyes.leases([name])
    return name in found and found[name][0].endswith(f"-{number}")


async def killed(scene: Scene) -> None:
    """One of two instances of every service dies of kill -9; the other leads all, and shares again when it is back."""
    await _shared(scene)

    async def kill() -> None:
        since = time.time()
        for service in SHARED:
            scene.ground.standbys.signal(service, signal.SIGKILL)
        moved = await _moved(scene, since, "kill -9", "1")
        await _at_work(scene, since, moved)
        await _shared(scene)

    await scene.under_load(kill)


async def frozen(scene: Scene) -> None:
    """One of two instances freezes until the other leads all, and goes on with what it had under way."""
    await _shared(scene)

    async def freeze() -> None:
        since = time.time()
        for service in SHARED:
            scene.ground.standbys.signal(service, signal.SIGSTOP)
        await _moved(scene, since, "frozen", "1")
        scene.ground.standbys.thaw()
        await _shared(scene)

    await scene.under_load(freeze)


async def moving(scene: Scene) -> None:
    """Second instances stop and start in good order: their groups go to and fro under load."""
    await _shared(scene)

    async def move() -> None:
        for _ in range(_ROUNDS_OF_MOVES):
            since = time.time()
            await asyncio.to_thread(scene.ground.standbys.stop)
            await _moved(scene, since, "stopped", "1")
            await _shared(scene)

    await scene.under_load(move, at=0.1)


async def divided_otherwise(scene: Scene) -> None:
    """Undivided instances take over while those that divide the work are frozen, and give it back when they die."""
    ground = scene.ground
    assert isinstance(ground, Sharing)
    await _shared(scene)
    await asyncio.to_thread(ground.whole.start, SHARED)

    async def change() -> None:
        for service in SHARED:
            ground.standbys.signal(service, signal.SIGSTOP)
            ground.signal(service, signal.SIGSTOP)
        await _all(scene, "undivided instances lead all", lambda service, now: set(now) == {f"{service}-2"})
        ground.standbys.thaw()
        for service in SHARED:
            ground.signal(service, signal.SIGCONT)
        await scene.nudge()
        for service in SHARED:
            ground.whole.signal(service, signal.SIGKILL)
        await _all(scene, "dividing instances lead again", lambda service, now: f"{service}-2" not in now)
        await _shared(scene)

    await scene.under_load(change)

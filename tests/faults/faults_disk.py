"""Faults of the log's disk under load: full, read-only, or hanging; later it takes writes again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from services.cli.installation.up import SERVICES
from tests.faults.ground_disk import FragileDisk, SmallDisk
from tests.faults.scene import Scene

FULL_SECONDS = 6.0
READ_ONLY_SECONDS = 4.0
HANGING_SECONDS = 8.0
_PATIENCE = 60.0
_REPLACED = b'"event":"log replaced"'


def fragile(scene: Scene) -> FragileDisk:
    """The installation's disk that can break."""
    assert isinstance(scene.ground, FragileDisk)
    return scene.ground


async def full(scene: Scene) -> None:
    """The disk fills up under load; services say so; there is room again later, and everything goes on by itself."""
    ground = scene.ground
    assert isinstance(ground, SmallDisk)
    said = len(scene.fleet.printed())

    async def fill() -> None:
        await asyncio.to_thread(ground.fill)
        await _told(scene, said)
        await asyncio.sleep(FULL_SECONDS)
        await asyncio.to_thread(ground.free)

    await _lived_through(scene, fill)


async def read_only(scene: Scene) -> None:
    """The filesystem finds an error and turns read-only; the server is started on it in vain; then it is mended."""
    ground = fragile(scene)
    said = len(scene.fleet.printed())

    async def break_and_mend() -> None:
        await asyncio.to_thread(ground.break_)
        await _told(scene, said)
        await asyncio.sleep(READ_ONLY_SECONDS)
        dead = scene.fleet.kill("nats")
        in_vain = len(scene.fleet.printed())

        async def said_why() -> bool:
            return "does not start" in scene.fleet.printed()[in_vain:]

        await scene.wait("it is told why the log's server does not start", said_why, _PATIENCE)
        await asyncio.to_thread(ground.mend)

        async def runs() -> bool:
            return scene.fleet.pid("nats") != dead and not await scene.eyes.unready(["scheduler"])

        await scene.wait("the log's server runs again", runs, _PATIENCE)

    await _lived_through(scene, break_and_mend, may_lose=True)


async def hanging(scene: Scene) -> None:
    """Every write of the log's server waits for some seconds; nobody dies of it, the server neither."""
    ground = fragile(scene)
    server = scene.fleet.pid("nats")

    async def freeze() -> None:
        await asyncio.to_thread(ground.freeze)
        await asyncio.sleep(HANGING_SECONDS)
        await asyncio.to_thread(ground.thaw)

    await _lived_through(scene, freeze)
    if scene.fleet.pid("nats") != server:
        scene.outcome.complaints.append("the log's server was started anew; it had only to wait")


async def _told(scene: Scene, said: int) -> None:
    """Wait until somebody says that the log takes no events."""

    async def told() -> bool:
        # Something has to be stored for a service to notice; where the API server stores nothing, nobody has anything.
        by_services = any("cannot write" in complaint for complaint in await scene.eyes.busy())
        return by_services or "cannot write" in scene.fleet.printed()[said:]

    await scene.wait("it is told that the log does not take events", told, _PATIENCE)


async def _lived_through(scene: Scene, injection: Callable[[], Awaitable[None]], *, may_lose: bool = False) -> None:
    """Play under load what no service may die of.

    A server whose disk failed under it `may_lose` what it showed already: who folded that starts anew, and says so.
    """
    before = {name: (scene.fleet.pid(name), len(_log_of(scene, name))) for name in SERVICES}
    await scene.under_load(injection)
    anew = [name for name, (pid, _) in before.items() if scene.fleet.pid(name) != pid]
    # Where one that shares a process ends, all of them do.
    excused = {pid for name, (pid, size) in before.items() if name in anew and _lost(scene, name, size)}
    fine = [name for name in anew if may_lose and before[name][0] in excused]
    scene.outcome.complaints += [f"{name} did not live through it" for name in anew if name not in fine]
    if fine:
        scene.outcome.notes.append(f"had folded what the disk lost: {', '.join(fine)}")


def _lost(scene: Scene, name: str, since: int) -> bool:
    """Whether a service said, behind this place in its log, that it held what is not stored any more."""
    return _REPLACED in _log_of(scene, name)[since:]


def _log_of(scene: Scene, name: str) -> bytes:
    file = scene.fleet.layout.log(name)
    return file.read_bytes() if file.exists() else b""

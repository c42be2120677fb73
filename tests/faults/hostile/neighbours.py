"""Faults: a member, or the control plane, answers wrongly for a while under load; the others must not notice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from schemas.keys import ObjectKey
from services._kit.kube.client import ApiError
from services.cli.common.layout import CONTROL
from tests.faults.hostile.front import Order
from tests.faults.hostile.ground import HOSTILE, OTHER, Fronted
from tests.faults.hostile.measuring import Memory, Probe, figures, larger, measured, sizes, worse
from tests.faults.scene import Scene

BEFORE_SECONDS: Final = 6.0
HOSTILE_SECONDS: Final = 12.0
BACK_SECONDS: Final = 10.0
"""Until everything is as before once the neighbour is sane, on a quiet machine; it is reported."""
BACK_AT_MOST: Final = 60.0
"""The bound on a busy one."""
_NUDGE: Final = 0.4
_SAMPLED_SECONDS: Final = 1.0

Play = Callable[[Scene], Awaitable[None]]


def fronted(scene: Scene) -> Fronted:
    """The ground of these faults."""
    assert isinstance(scene.ground, Fronted)
    return scene.ground


async def misbehave(scene: Scene, name: str, order: Order) -> None:
    """Have a front behave from now on."""
    await asyncio.to_thread(fronted(scene).misbehave, name, order)


async def probes(scene: Scene) -> tuple[Probe, Probe]:
    """Made and delivered once: one for the hostile member, one for another."""
    made = []
    for member in (HOSTILE, OTHER):
        probe = Probe(scene.eyes.control, scene.eyes.members[member], scene.namespace, member)
        await probe.make()
        if await probe.once() > BACK_AT_MOST:
            scene.outcome.complaints.append(f"{member} does not get what is delivered, without any fault")
        made.append(probe)
    return made[0], made[1]


async def busily(scene: Scene, work: Awaitable[None]) -> None:
    """Do something while Deployments are scaled all the time."""

    async def nudge() -> None:
        while True:
            await scene.nudge()
            await asyncio.sleep(_NUDGE)

    nudging = asyncio.create_task(nudge())
    try:
        await work
    finally:
        nudging.cancel()
        ended = (await asyncio.gather(nudging, return_exceptions=True))[0]
    if isinstance(ended, Exception):
        raise ended


async def drift(scene: Scene, mine: Probe) -> None:
    """Somebody edits an object of the hostile member: that is one more write to come."""
    key = HOSTILE, ObjectKey("", "configmaps", scene.namespace, mine.name)
    scene.by_hand[key] = scene.by_hand.get(key, 0) + 1
    await mine.drift()


async def back(scene: Scene, mine: Probe, at_most: float = BACK_AT_MOST) -> None:
    """Wait until the neighbour gets what is delivered and what was changed there is repaired; report how long."""
    began = time.monotonic()
    complaints = []
    if await mine.once(at_most) >= at_most:
        complaints.append(f"nothing new reached {HOSTILE} within {at_most:g} s after everything was sane again")
    else:
        await drift(scene, mine)
        while not await mine.repaired():
            if time.monotonic() > began + at_most:
                complaints.append(f"drift in {HOSTILE} was not repaired within {at_most:g} s after all was sane again")
                break
            await asyncio.sleep(0.05)
    taken = time.monotonic() - began
    scene.outcome.complaints += complaints
    scene.outcome.notes.append(f"normal {taken:.1f} s after it" + (" (over 10 s)" if taken > BACK_SECONDS else ""))


async def hostile_member(scene: Scene, order: Order, seconds: float = HOSTILE_SECONDS) -> None:
    """A member misbehaves; deliveries to another are measured before and meanwhile, and memory."""
    await scene.under_load()
    mine, other = await probes(scene)
    run = scene.fleet.layout.directory / "run"
    seen: list[str] = []

    async def play() -> None:
        before = await measured(run, other, BEFORE_SECONDS)
        # Connections are broken: what it does has to meet every kind of request.
        await misbehave(scene, HOSTILE, order)
        during = await measured(run, other, seconds)
        canary = (await asyncio.to_thread(fronted(scene).fronts.counted, HOSTILE)).canary
        await misbehave(scene, HOSTILE, Order())
        seen.extend(worse(before, during))
        if canary:
            seen.append(f"{canary} requests followed a redirect of {HOSTILE}")
        scene.outcome.notes.append(figures(before, during))

    await busily(scene, play())
    scene.outcome.complaints += seen
    await back(scene, mine)


async def garbled_control(scene: Scene, order: Order, seconds: float = 4.0) -> None:
    """The control plane misbehaves for seconds; then everything goes on, and nothing was lost or deleted."""
    await scene.under_load()
    mine, _ = await probes(scene)
    scene.outcome.complaints += await scene.settle()
    held = await uids(scene)
    run = scene.fleet.layout.directory / "run"
    async with Memory(run) as before:
        await asyncio.sleep(_SAMPLED_SECONDS)
    async with Memory(run) as during:
        await misbehave(scene, CONTROL, order)
        await asyncio.sleep(seconds)
        await misbehave(scene, CONTROL, Order())
    await back(scene, mine)
    beyond = " (over the bound of a hostile member)" if larger(before.most, during.most) else ""
    scene.outcome.notes.append(sizes(before.most, during.most) + beyond)
    scene.outcome.complaints += replaced(held, await uids(scene))


async def half_open(scene: Scene, name: str) -> None:
    """Streams of one neighbour say nothing more, new connections are fine: noticed without waiting for minutes."""
    await scene.under_load()
    mine, other = await probes(scene)
    run = scene.fleet.layout.directory / "run"
    before = await measured(run, other, BEFORE_SECONDS)
    await misbehave(scene, name, Order(freeze=True))
    began = time.monotonic()
    if name == CONTROL:
        # Its watch tells nothing of the change.
        taken = await mine.once(NOTICED_AT_MOST)
    else:
        await drift(scene, mine)
        during = await measured(run, other, BEFORE_SECONDS)
        scene.outcome.complaints += worse(before, during)
        while time.monotonic() < began + NOTICED_AT_MOST:
            if await mine.repaired():
                break
            await asyncio.sleep(0.1)
        taken = time.monotonic() - began
    if taken >= NOTICED_AT_MOST:
        scene.outcome.complaints.append(f"streams of {name} that stand still were not noticed in {NOTICED_AT_MOST:g} s")
    scene.outcome.notes.append(f"silent streams noticed after {taken:.1f} s")
    await misbehave(scene, name, Order())
    await back(scene, mine)


NOTICED_AT_MOST: Final = 75.0
"""Silence counts as broken after 30 s; on a busy machine it takes twice as long, but never minutes."""


async def uids(scene: Scene) -> dict[str, str]:
    """Uids of what the members hold of the round, by member, kind and name."""
    found = {}
    for member, client in scene.eyes.members.items():
        for path, kind in (
            ("/apis/apps/v1", "deployments"),
            ("/api/v1", "configmaps"),
            ("/api/v1", "pods"),
        ):
            answer = await client.get(f"{path}/namespaces/{scene.namespace}/{kind}")
            for item in answer.get("items") or ():
                metadata = item["metadata"]
                found[f"{member} {kind} {metadata['name']}"] = metadata["uid"]
        with suppress(ApiError):
            namespace = await client.get(f"/api/v1/namespaces/{scene.namespace}")
            found[f"{member} namespace"] = namespace["metadata"]["uid"]
    return found


def replaced(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is gone or was made again."""
    return [
        f"{name}: its uid was {uid}, and after the fault {after.get(name, 'it is gone')}"
        for name, uid in before.items()
        if after.get(name) != uid
    ]


def member_plays() -> dict[str, Play]:
    """One for each misdeed of a member."""
    cut = {"cut": True}
    orders = {
        "endless-line": Order(misdeed="endless-line", **cut),
        "endless-body": Order(misdeed="endless-body", **cut),
        "gzip-bomb": Order(misdeed="gzip-bomb", **cut),
        "pages": Order(misdeed="pages", **cut),
        "html": Order(misdeed="html", **cut),
        "html-line": Order(say="<html>proxy error</html>"),
        "wrong-types": Order(misdeed="wrong-types", **cut),
        "redirect": Order(misdeed="redirect", **cut),
        "silent": Order(misdeed="silent", **cut),
        "slow-bytes": Order(misdeed="slow-bytes", **cut),
        "invented": Order(misdeed="invented", **cut),
        "unauthorized": Order(misdeed="unauthorized", **cut),
        "headers": Order(misdeed="headers", **cut),
        "truncated": Order(misdeed="truncated", **cut),
    }
    return {name: partial(hostile_member, order=order) for name, order in orders.items()}


def control_plays() -> dict[str, Play]:
    """One for each way in which the control plane's answers are garbage."""
    orders = {
        "html-line": (Order(say="<html>proxy error</html>"), 1.0),
        "maintenance": (Order(misdeed="html", cut=True), 4.0),
        "wrong-types": (Order(misdeed="wrong-types", cut=True), 8.0),
        "truncated": (Order(misdeed="truncated", cut=True), 4.0),
        "endless-line": (Order(misdeed="endless-line", cut=True), 6.0),
        "endless-body": (Order(misdeed="endless-body", cut=True), 6.0),
        "gzip-bomb": (Order(misdeed="gzip-bomb", cut=True), 6.0),
        "redirect": (Order(misdeed="redirect", cut=True), 4.0),
        "unauthorized": (Order(misdeed="unauthorized", cut=True), 4.0),
    }
    return {name: partial(garbled_control, order=order, seconds=seconds) for name, (order, seconds) in orders.items()}


half_open_control: Final = partial(half_open, name=CONTROL)
half_open_member: Final = partial(half_open, name=HOSTILE)

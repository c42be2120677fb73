"""Faults: a member's API refuses, fails, is slow, or does not answer."""

from __future__ import annotations

import asyncio

from tests.faults.scene import Scene

HOLD_SECONDS = 2.0


async def _while_it_lasts(scene: Scene, what: str, seconds: float = HOLD_SECONDS, **fault: object) -> None:
    """One member shows a fault from a moment of the load on until a while after it."""
    name = str(fault.pop("member", "")) or scene.chance.choice(scene.fleet.members)

    async def hold() -> None:
        await scene.member(name, **fault)
        await scene.load.reached(1.0)
        await asyncio.sleep(seconds)
        await scene.member(name, mode="none")

    scene.outcome.notes.append(f"{name} {what}")
    await scene.under_load(hold)


async def too_many(scene: Scene) -> None:
    """429 with Retry-After."""
    await _while_it_lasts(scene, "answers 429", mode="refuse", status=429)


async def failing(scene: Scene) -> None:
    """500 for every request."""
    await _while_it_lasts(scene, "answers 500", mode="refuse", status=500)


async def failing_writes(scene: Scene) -> None:
    """500 for writes alone: reads and watches go on."""
    await _while_it_lasts(
        scene, "answers 500 to writes", mode="refuse", status=500, verbs=["create", "update", "patch", "delete"]
    )


async def slow(scene: Scene) -> None:
    """Every answer takes 3 s."""
    await _while_it_lasts(scene, "takes 3 s for an answer", mode="slow", delayMs=3000)


async def very_slow(scene: Scene) -> None:
    """Every answer takes 30 s; what was asked meanwhile is carried out late."""
    await _while_it_lasts(
        scene, "takes 30 s for an answer", seconds=10.0, member="member2", mode="slow", delayMs=30_000
    )


async def refusing(scene: Scene) -> None:
    """Nobody listens at the member's port."""
    await _while_it_lasts(scene, "refuses connections", mode="stop")

"""Faults: services die around storing events and around acting; members of theirs in every place at once."""

from __future__ import annotations

from services._kit.base.fault_points import Point
from services.cli.installation.up import SERVICES
from tests.faults.leading import primaries_lead
from tests.faults.scene import Scene

APPENDS = ("detector", "scheduler", "override_renderer", "executor", "status_aggregator")
"""Services that every load makes append; the others do when there is an occasion."""
ACTS = ("detector", "executor", "status_aggregator")
"""Services that every load makes write to a cluster or to the control plane."""


async def at_point(scene: Scene, point: Point) -> None:
    """Every service dies at a point, each at a moment of its own."""
    await primaries_lead(scene)
    must = APPENDS if point.endswith("append") else ACTS
    before = {name: scene.fleet.pid(name) for name in SERVICES}
    for name in SERVICES:
        scene.ground.order(name, point, scene.chance.randint(1, 4))
    await scene.under_load()

    async def reached() -> bool:
        if not set(must) & set(scene.ground.ordered()):
            return True
        await scene.nudge()
        return False

    await scene.wait(f"all of {', '.join(must)} come to {point}", reached)
    waiting = scene.ground.ordered()
    died = [name for name in before if name not in waiting]
    for name in waiting:
        (scene.ground.points / name).unlink(missing_ok=True)
    scene.outcome.notes.append(f"killed {', '.join(died)}")


async def before_append(scene: Scene) -> None:
    """kill -9 of every service before it stores events."""
    await at_point(scene, "before_append")


async def after_append(scene: Scene) -> None:
    """kill -9 of every service after it stored events, before it acts on that."""
    await at_point(scene, "after_append")


async def before_act(scene: Scene) -> None:
    """kill -9 of every service before a request to a cluster."""
    await at_point(scene, "before_act")


async def after_act(scene: Scene) -> None:
    """kill -9 of every service after a request to a cluster, before that is recorded."""
    await at_point(scene, "after_act")


async def log_server(scene: Scene) -> None:
    """kill -9 of the log's server, and of one service or API server at the same moment."""
    victim = scene.chance.choice([*SERVICES, "control", *scene.fleet.members])

    async def kill() -> None:
        scene.fleet.kill("nats")
        scene.fleet.kill(victim)

    scene.outcome.notes.append(f"killed nats, {victim}")
    await scene.under_load(kill)

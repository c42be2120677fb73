"""Fault: one service and the log die under load; later everything is restarted, and that alone changes nothing."""

from __future__ import annotations

import asyncio

from services.cli.installation.up import SERVICES
from tests.faults.checker import Audits, check_quiet
from tests.faults.leading import primaries_lead
from tests.faults.rounds import settled
from tests.faults.scene import Scene


async def restart(scene: Scene) -> None:
    """kill -9 of the log and of a service at moments of their own; then a restart that appends and writes nothing."""
    await primaries_lead(scene)
    victim = scene.chance.choice(SERVICES)

    async def kill_service() -> None:
        scene.fleet.kill(victim)

    async def kill_log() -> None:
        scene.fleet.kill("nats")

    scene.outcome.notes.append(f"killed {victim}, nats; restarted everything")
    await scene.under_load(kill_service, kill_log)
    scene.outcome.complaints += await scene.settle()
    # A sample of capacity that is due anyway must not be mistaken for something a restart appends.
    scene.outcome.complaints += await settled(scene.eyes.unsampled)
    scene.outcome.complaints += await scene.settle()
    end = await scene.eyes.last_seq()
    await asyncio.to_thread(scene.fleet.stop)
    await asyncio.to_thread(scene.fleet.start)
    audits = Audits({name: scene.fleet.layout.audit(name) for name in scene.fleet.members})
    await scene.reopen()
    scene.outcome.complaints += await scene.settle()
    new = [message for message in await scene.eyes.messages("FACTS") if message.seq > end]
    scene.outcome.complaints += check_quiet(new, end)
    scene.outcome.complaints += [f"{member}: written by a mere restart: {record}" for member, record in audits.ours()]

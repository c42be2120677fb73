"""Reads a world from the log, and fetches what its decisions lack: manifests, and answers of interpreters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import structlog

from schemas.codec import DecodeError, decode
from schemas.keys import ObjectKey
from schemas.topology import BLOBS, FACTS
from services._kit.base.log_errors import LogError
from services._kit.concurrency.tasks import set_within
from services._kit.content.blobs import Blobs
from services._kit.interpretation.async_interpretation import AsyncInterpretation, InterpretationRequest
from services._kit.log.fact_history import past, present, stored_at
from services._kit.log.stream_port import Log, Message
from services._rules.policies.skip_rules import compile_skip_rules
from services.foresight.planning import Needs, Planner
from services.foresight.world import USUAL, Circumstances, World, new_world

log = structlog.get_logger("foresight")

FILTERS: Final = (
    "template.>",
    "policy.>",
    "binding.>",
    "endpoints.>",
    "cluster.*",
    "estimate.>",
    "eviction.>",
    "descheduling.>",
    "placement.>",
    "rollup.>",
    "lease.estimator",
)
"""What the services read; but for works: both sides of a comparison are rendered in memory."""
_AT_ONCE: Final = 32
_LOOK: Final = 0.05


class Asked:
    """Interpreters as a plan asks them: every question is answered before the plan goes on."""

    def __init__(self) -> None:
        self._answered = asyncio.Event()
        self.asking: AsyncInterpretation[ObjectKey] = AsyncInterpretation(lambda _: self._answered.set())

    async def answer(self, needs: Needs) -> None:
        """Wait until every question is answered."""
        for key, questions in needs.questions:
            self.asking.submit(InterpretationRequest(key, questions))
        while self.asking.pending:
            self._answered.clear()
            # A key is let go a moment after it was marked.
            await set_within(self._answered, _LOOK)

    async def close(self) -> None:
        """End the processes for scripts."""
        await self.asking.close()


async def read_world(
    logs: Mapping[str, Log], asked: Asked, at: float | None = None, circumstances: Circumstances = USUAL
) -> World:
    """The world as the present facts make it, or those of a time in the past (seconds since 1970)."""
    if at is None:
        messages = [(message.seq, message) for message in await present(logs[FACTS.name], FILTERS)]
    else:
        messages = await past(logs, FILTERS, at)
    return await asyncio.to_thread(_folded, messages, asked, circumstances)


def _folded(messages: Iterable[tuple[int, Message]], asked: Asked, circumstances: Circumstances) -> World:
    asking = asked.asking
    world = new_world(compile_skip_rules(), asking.interpreter, asking.take, circumstances)
    for seq, message in messages:
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            log.warning("fact_left_out", position=seq, reason=str(error))
            continue
        world.take(seq, message.subject, event, stored_at(message))
    world.begin()
    return world


async def settle(
    planner: Planner, logs: Mapping[str, Log], asked: Asked, stored: Callable[[ObjectKey], Awaitable[bytes | None]]
) -> None:
    """Advance a plan to its end; what it lacks is fetched.

    `stored` gives objects as the control plane holds them, also Secrets; None for one that cannot be had.
    """
    blobs = Blobs(logs[BLOBS.name])
    gate = asyncio.Semaphore(_AT_ONCE)

    async def fetch(digest: str) -> None:
        async with gate:
            try:
                data = await blobs.get(digest)
            except LogError as error:
                planner.leave_out(digest, str(error))
                return
        planner.supply(digest, data)

    while (needs := await asyncio.to_thread(planner.advance)).any:
        await asyncio.gather(*(fetch(digest) for digest in needs.digests))
        for key in needs.secrets:
            planner.supply_secret(key, await stored(key))
        for key in needs.required:
            planner.supply_required(key, await stored(key))
        await asked.answer(needs)

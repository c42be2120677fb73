"""Runs the janitor: purges what ended, trims busy subjects, and announces purged tombstones.

Purges carry no fence, and need none: what was once due stays due, and up to its position there are only tombstones and
what they supersede. An instance that was deposed, or killed between two purges, leaves nothing wrong behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from schemas.codec import Known
from schemas.events.observed import WorkObserved
from schemas.hints import Gone, Purged
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import PURGED
from schemas.topology import FACTS, OBSERVED
from services._kit.base.log_errors import LogError
from services._kit.log.fact_history import HISTORY, held
from services._kit.log.stream_port import Message
from services._kit.log.streams import fills
from services._kit.runtime.service import Context, Decider
from services._rules.decision import Decision
from services._rules.history.retention import trim_position
from services.janitor.blob_gc import BlobCollector
from services.janitor.decide import AskHistory, End, Trim, decide
from services.janitor.fill import StreamWatch
from services.janitor.metrics import JanitorStats, register, register_fill
from services.janitor.settings import JanitorSettings
from services.janitor.state import (
    TAIL_BYTES,
    JanitorState,
    Key,
    SliceKey,
    Tail,
    fold,
    forget_cluster,
    forget_object,
    forget_policy,
    forget_slice,
    trimmed,
    unreadable,
    weigh,
)

_AT_ONCE: Final = 16

log = structlog.get_logger("janitor")


class Janitor(Decider[JanitorState, Key]):
    """Everything in, purges out."""

    name = "janitor"
    filters = (
        "template.>",
        "policy.>",
        "autoscaling.>",
        "endpoints.>",
        "cluster.*",
        "binding.>",
        "estimate.>",
        "placement.>",
        "eviction.>",
        "descheduling.>",
        "work.>",
        "rollup.>",
        "observed.>",
    )
    patience = 1.0
    _collector: BlobCollector

    def __init__(self, settings: JanitorSettings) -> None:
        self.stats = JanitorStats()
        self._settings = settings
        self._watch: StreamWatch | None = None

    def new_state(self) -> JanitorState:
        """An empty projection."""
        return JanitorState(tail=self._settings.janitor_tail)

    def fold(self, state: JanitorState, message: Message, event: Known) -> Iterable[Key]:
        """Apply one event."""
        touched = fold(state, message.seq, message.time, message.subject, event)
        if isinstance(event, WorkObserved):
            return touched
        return [*touched, *weigh(state, message.subject, len(message.data))]

    def unreadable(self, state: JanitorState, message: Message) -> Iterable[Key]:
        """Keys with facts of a newer version, which stay."""
        return unreadable(state, message.subject)

    def recover(self, state: JanitorState) -> Iterable[Key]:
        """Everything: retention may be over, and a purge may have been cut short."""
        return [*state.objects, *state.policies, *state.clusters, *state.slices]

    def decide(self, state: JanitorState, key: Key, now: float) -> Decision:
        """What of one thing may go now; a purge that does not get through is tried again."""
        return decide(state, key, now, self._settings.janitor_retention, self._settings.janitor_patience)

    async def start(self, context: Context[JanitorState, Key]) -> None:
        """Take the runtime's services."""
        await super().start(context)
        self._collector = BlobCollector(
            context.logs, context.clock, self._settings.janitor_blob_period, self.stats.blobs
        )
        register(context.metrics.reads, context.projection.state, self.stats)
        connection = context.connection
        if connection is not None:
            self._watch = StreamWatch(
                partial(fills, connection), self._settings.janitor_fill_period, self._alarms_changed
            )
            register_fill(context.metrics.reads, self._watch)
            context.health.fact("streams", self._watch.document)
            self._watch.start()

    def _alarms_changed(self, streams: frozenset[str]) -> None:
        """Keep less of busy subjects in FACTS while it is nearly full: HISTORY has what goes."""
        state, settings = self.state, self._settings
        tight = min(settings.janitor_tail, settings.janitor_tight_tail)
        state.tail = tight if FACTS.name in streams else settings.janitor_tail
        if FACTS.name in streams:
            self.context.mark([Tail(subject) for subject, count in state.counts.items() if count > tight])

    async def on_leading(self) -> None:
        """Read the position of HISTORY, and find subjects that grew long while no instance led."""
        context = self.context
        state = context.projection.state
        busy: list[Tail] = []
        try:
            state.held = await held(context.logs[HISTORY])
            for pattern in FACTS.subjects:
                for subject, count in (await context.logs[FACTS.name].counts(pattern)).items():
                    if count > 1:
                        state.counts[subject] = count
                    if count > state.tail:
                        busy.append(Tail(subject))
        except LogError as error:
            # Nothing is lost but time: the counts go on from here.
            log.warning("log_not_counted", error=str(error))
        context.mark(busy)
        self._collector.start()

    async def on_following(self) -> None:
        """Another instance collects now."""
        await self._collector.stop()

    async def stop(self) -> None:
        """End what runs beside the decisions."""
        if self._watch is not None:
            await self._watch.stop()
        await self._collector.stop()

    async def perform(self, effects: Sequence[object]) -> None:
        """Purge and trim; what fails is decided again after a while."""
        waiting = [effect for effect in effects if isinstance(effect, AskHistory)]
        trims = [effect.tail.subject for effect in effects if isinstance(effect, Trim)]
        ends = [effect for effect in effects if isinstance(effect, End)]
        if waiting or trims:
            await self._ask_history(waiting)
        room = asyncio.Semaphore(_AT_ONCE)
        ended = [end for end in await asyncio.gather(*(self._end(end, room) for end in ends)) if end is not None]
        if ended:
            await self._announce(ended)
        for subject in trims:
            await self._trim(subject)

    async def _ask_history(self, waiting: Sequence[AskHistory]) -> None:
        context = self.context
        state = context.projection.state
        try:
            state.held = await held(context.logs[HISTORY])
        except LogError as error:
            self._failed("history_not_read", HISTORY, error)
            return
        context.mark([effect.key for effect in waiting if effect.position <= state.held])

    async def _end(self, end: End, room: asyncio.Semaphore) -> End | None:
        """Carry out the purges of one thing in their order; None when one did not get through."""
        context = self.context
        async with room:
            for purge in end.purges:
                try:
                    self.stats.purged += await context.logs[purge.stream].purge(purge.subject, purge.up_to)
                except LogError as error:
                    self._failed("purge_failed", purge.subject, error)
                    return None
        self._forget(context.projection.state, end)
        self.stats.ended += 1
        return end

    def _forget(self, state: JanitorState, end: End) -> None:
        facts = end.position
        observed = max((purge.up_to for purge in end.purges if purge.stream == OBSERVED.name), default=0)
        match end.key:
            case ObjectKey():
                forget_object(state, end.key, facts, observed)
            case PolicyKey():
                forget_policy(state, end.key, facts)
            case SliceKey():
                forget_slice(state, end.key, facts)
            case name:
                forget_cluster(state, name, facts, observed)
        for purge in end.purges:
            state.counts.pop(purge.subject, None)
            state.weights.pop(purge.subject, None)

    async def _announce(self, ended: Sequence[End]) -> None:
        """Publish a best-effort hint about purged tombstones."""
        context = self.context
        if context.connection is None:
            return
        hint = Purged(
            objects=tuple(Gone(end.key, end.position) for end in ended if isinstance(end.key, ObjectKey)),
            policies=tuple(end.key for end in ended if isinstance(end.key, PolicyKey)),
            clusters=tuple(end.key for end in ended if isinstance(end.key, str)),
        )
        try:
            await context.connection.publish(PURGED, msgspec.json.encode(hint))
        except LogError as error:
            self._failed("purges_not_announced", PURGED, error)

    async def _trim(self, subject: str) -> None:
        """Cut the events of a subject that are neither among its newest nor missing in HISTORY."""
        state, facts = self.state, self.context.logs[FACTS.name]
        count, weight = state.counts.get(subject, 0), state.weights.get(subject, 0)
        try:
            there = [(message.seq, len(message.data)) async for message in facts.read([subject])]
            positions, sizes = [seq for seq, _ in there], [size for _, size in there]
            up_to = trim_position(positions, state.tail, state.held, sizes, TAIL_BYTES)
            if up_to:
                self.stats.trimmed += await facts.purge(subject, up_to)
        except LogError as error:
            self._failed("trim_failed", subject, error)
            return
        trimmed(state, subject, [size for seq, size in there if seq > up_to], count, weight)

    def _failed(self, what: str, where: str, error: LogError) -> None:
        self.stats.failures += 1
        log.warning(what, subject=where, error=str(error))

"""Runs the registrar: folds facts, and while leading answers agents, with separate queues for each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any, Final

import structlog
from nats.aio.msg import Msg

from schemas.codec import Known, decode
from schemas.envelope import HEADER_PRODUCER
from schemas.events.observed import WorkObserved
from schemas.subjects import SubjectError, unescape
from schemas.topology import OBSERVED
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import spawn
from services._kit.log.stream_port import Message
from services._kit.runtime.appender import KeyedEvents
from services._kit.runtime.service import BaseService, Context
from services._rules.interpreter.configuration import FILTERS
from services.registrar.agent_requests import AgentRequests
from services.registrar.metrics import DeskStats, register
from services.registrar.settings import RegistrarSettings
from services.registrar.state import RegistrarState, fold

log = structlog.get_logger("registrar")

FAMILIES: Final = ("hello", "blobs", "reports", "rooms")


class Registrar(BaseService[RegistrarState, str]):
    """Agents' requests in, consumers, bytes and observations out; keys are cluster names."""

    name = "registrar"
    filters = ("work.>", "cluster.*", "observed.>", *FILTERS)
    states = RegistrarState

    def __init__(self, settings: RegistrarSettings) -> None:
        self.stats = DeskStats()
        self._settings = settings
        self._desks: dict[str, AgentRequests] = {}
        self._subscriptions: list[Any] = []
        self._background: set[asyncio.Task[None]] = set()

    def fold(self, state: RegistrarState, message: Message, event: Known) -> Iterable[str]:
        """Apply one event; an observation that a replaced leader appended after its successor's is corrected."""
        before = state.last_seq(message.subject)
        touched = fold(state, message.seq, message.subject, event)
        if isinstance(event, WorkObserved) and event.prev < before and self._is_stray(state, message, event):
            self._beside("report_again", self._append_again(before))
        return touched

    def _beside(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = spawn(name, work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _is_stray(self, state: RegistrarState, message: Message, event: WorkObserved) -> bool:
        """Whether another instance wrote of a pull member while this one leads."""
        member = state.members.get(event.cluster)
        if not self._subscriptions or self._context is None or member is None or member.mode != "Pull":
            return False
        return message.headers.get(HEADER_PRODUCER) != self.context.appender.producer

    async def _append_again(self, position: int) -> None:
        """Repeat an observation that an older one came behind."""
        try:
            message = await self.context.logs[OBSERVED.name].get(position)
            event = decode(message.subject, message.data) if message is not None else None
            if isinstance(event, WorkObserved):
                await self.context.appender.append([KeyedEvents(event.cluster, (event,))])
        except LogError as error:
            log.warning("report_not_repeated", position=position, error=str(error))

    async def start(self, context: Context[RegistrarState, str]) -> None:
        """Offer the metrics."""
        await super().start(context)
        register(context.metrics.reads, context.projection.state, self.stats)

    async def on_leading(self) -> None:
        """Answer agents from now on."""
        connection = self.context.connection
        if connection is None:
            return
        if self.context.restoration is not None and self.context.restoration.holds:
            self._end_consumers()
        for family in FAMILIES:
            self._subscriptions.append(await connection.subscribe(f"{family}.*", partial(self._take, family)))

    async def on_following(self) -> None:
        """Another instance answers now."""
        subscriptions, self._subscriptions = self._subscriptions, []
        desks, self._desks = self._desks, {}
        connection = self.context.connection
        if connection is not None and not connection.nc.is_closed:
            for subscription in subscriptions:
                await subscription.unsubscribe()
        await asyncio.gather(*(desk.close() for desk in desks.values()), *self._background, return_exceptions=True)

    def _end_consumers(self) -> None:
        """Agents that still read lose their consumers: they are given new ones when the restore is over."""
        for name, member in self.state.members.items():
            if member.mode == "Pull":
                desk = self._desks[name] = AgentRequests(name, self.context, self._settings, self.stats)
                task = spawn(f"desk-forget:{name}", desk.forget())
                self._background.add(task)
                task.add_done_callback(self._background.discard)

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()

    def on_dirty(self, keys: Iterable[str]) -> None:
        """A cluster that is no pull member any more needs no consumer."""
        members = self.state.members
        for cluster in keys:
            member = members.get(cluster)
            desk = self._desks.get(cluster)
            if desk is not None and (member is None or member.mode != "Pull"):
                self._beside("consumer_deleted", desk.forget())

    async def _take(self, family: str, message: Msg) -> None:
        """Take one request; its cluster is the one in the subject, which the sender's account permits."""
        try:
            cluster = unescape(message.subject.partition(".")[2])
        except SubjectError:
            self.stats.refused += 1
            return
        desk = self._desks.get(cluster)
        if desk is None:
            desk = self._desks[cluster] = AgentRequests(cluster, self.context, self._settings, self.stats)
        await desk.take(family, message)

"""Runs the gateway: folds the log, keeps the catalog up to date, serves it. Every instance does; none leads."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

import structlog

from schemas.codec import Known
from schemas.events.cluster import ClusterRemoved
from schemas.topology import FACTS, OBSERVED
from services._kit.base.clock import SystemClock
from services._kit.credentials.serving_certificate import CertificateWatch
from services._kit.log.stream_port import Message
from services._kit.proxying.caller_limits import CallerBounds, CallerLimits
from services._kit.proxying.front_identity import Authenticator, certificate_of, watched_tls
from services._kit.runtime.service import BaseService, Context
from services.gateway.front.caller_reviews import CallerReviews
from services.gateway.front.front import Front
from services.gateway.gateway_history import Histories
from services.gateway.http.collection_reads import Reader
from services.gateway.http.gateway_api import Api
from services.gateway.member_metrics.measuring import Measuring
from services.gateway.member_metrics.member_questions import QuestionBounds
from services.gateway.member_metrics.metrics_door import MetricsDoor
from services.gateway.members.member_door import DoorBounds, MemberDoor
from services.gateway.members.member_ways import MemberWays
from services.gateway.metrics import GatewayMetrics, MemberMetrics, QuestionMetrics, register_pull
from services.gateway.protocol.rendered_views import Encoder
from services.gateway.settings import GatewaySettings
from services.gateway.state import FILTERS, GatewayState, Place, fold
from services.gateway.views.catalog import Catalog


class Gateway(BaseService[GatewayState, Place]):
    """The log in, objects out; `api` is there after the start."""

    name = "gateway"
    filters = FILTERS
    leads = False
    patience = 0.05

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        # Bad settings end the process before it connects.
        Authenticator(settings, "gateway", passes_on=bool(settings.upstream_url))
        certificate_of(settings, SystemClock().now)
        self.catalog = Catalog(secrets.randbits(16), settings.watch_changes)
        self.api: Api | None = None
        self._tls: CertificateWatch | None = None
        self._ways: MemberWays | None = None
        self._measuring: Measuring | None = None
        self._state = GatewayState()
        self._ready = False
        self._ends: dict[str, int] = {}
        self._grown: asyncio.Future[None] | None = None
        self._log = structlog.get_logger(__name__)

    def new_state(self) -> GatewayState:
        """An empty projection."""
        return self._state

    def fold(self, state: GatewayState, message: Message, event: Known) -> Iterable[Place]:
        """Apply one event."""
        if isinstance(event, ClusterRemoved) and self.api is not None:
            self.api.members.left(event.name)
        return fold(state, message.seq, message.time, event)

    async def start(self, context: Context[GatewayState, Place]) -> None:
        """Listen; until the log was read, resources answer that it is being read."""
        self._ends = {name: (await context.logs[name].identity()).last_seq for name in (FACTS.name, OBSERVED.name)}
        reader = Reader(self.catalog, Encoder(context.blobs), context.clock, self.grown)
        metrics = GatewayMetrics(context.metrics.registry, context.metrics.reads, self.catalog, reader)
        context.health.check("catalog", lambda: "" if self._ready else "the log is still being read")
        histories = Histories(context.logs)
        settings = self._settings
        limits = CallerLimits(
            CallerBounds(settings.member_requests, settings.member_streams, settings.member_requests_altogether)
        )
        members = await self._members(context, limits)
        measured = self._measured(context, limits)
        self._tls = watched_tls(settings, context.clock.now, context.health, context.metrics.reads)
        self.api = Api(
            self._settings,
            self._tls.context if self._tls is not None else None,
            reader,
            histories,
            context.health,
            metrics,
            loaded=lambda: self._ready,
            members=members,
            measured=measured,
            served_metrics=self._measuring.served if self._measuring is not None else None,
        )
        await self.api.start()
        context.health.fact("api", lambda: self.api.url if self.api is not None else "")
        self._log.info("api", url=self.api.url)

    def _measured(
        self, context: Context[GatewayState, Place], limits: CallerLimits
    ) -> Callable[[CallerReviews], MetricsDoor]:
        """Makes the way to the metrics of members."""
        metrics = QuestionMetrics(context.metrics.registry, context.metrics.reads)
        if self._ways is not None:
            bounds = QuestionBounds(self._settings.member_metrics_seconds, self._settings.member_metrics_bytes)
            self._measuring = Measuring(self._ways, bounds, metrics, lambda: self._state.measured)
        answers = self._measuring.answers if self._measuring is not None else None
        return lambda reviews: MetricsDoor(answers, reviews, limits, metrics)

    async def _members(
        self, context: Context[GatewayState, Place], limits: CallerLimits
    ) -> Callable[[Front | None], MemberDoor]:
        """Makes the way to members, which needs the control plane."""
        settings = self._settings
        if settings.control_kubeconfig:
            self._ways = await MemberWays.open(settings, context.logs, context.clock)
            register_pull(context.metrics.reads, self._ways.pull, self._ways.journal)
        seconds = settings.member_answer_seconds
        bounds = DoorBounds(settings.member_body_bytes, seconds, seconds)
        metrics = MemberMetrics(context.metrics.registry, context.metrics.reads, limits)
        ways = self._ways

        def door(front: Front | None) -> MemberDoor:
            reviews = CallerReviews(ways.control if ways is not None else None, front)
            return MemberDoor(ways, reviews, limits, bounds, metrics)

        return door

    async def on_caught_up(self) -> None:
        """Everything on the log is in the projection: show it.

        Its revision is where the log ended, whatever stands there: the last events that earlier revisions came from may
        have been purged, and a revision never goes back.
        """
        self._state.facts = max(self._state.facts, self._ends[FACTS.name])
        self._state.observations = max(self._state.observations, self._ends[OBSERVED.name])
        self.catalog.start(self._state)
        self._ready = True
        self._notify()

    async def on_leading(self) -> None:
        """From now on `on_dirty` reports changes; those that came in between are taken in here."""
        self._refresh()

    def on_dirty(self, keys: Iterable[Place]) -> None:
        """Show what changed."""
        self._refresh()

    async def stop(self) -> None:
        """End watches and stop listening."""
        if self.api is not None:
            await self.api.stop()
        if self._tls is not None:
            await self._tls.stop()
        if self._measuring is not None:
            self._measuring.close()
        if self._ways is not None:
            await self._ways.close()

    async def grown(self) -> None:
        """Return at the next change of the catalog."""
        if self._grown is None:
            self._grown = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._grown)

    def _refresh(self) -> None:
        if self.catalog.refresh(self._state):
            self._notify()

    def _notify(self) -> None:
        grown, self._grown = self._grown, None
        if grown is not None and not grown.done():
            grown.set_result(None)

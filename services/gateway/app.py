"""Runs the gateway: folds the log, keeps the catalog up to date, serves it. Every instance does; none leads."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable

import structlog

from schemas.codec import Known
from schemas.topology import FACTS, OBSERVED
from services._kit.log.stream_port import Message
from services._kit.runtime.service import BaseService, Context
from services.gateway.gateway_history import Histories
from services.gateway.http.collection_reads import Reader
from services.gateway.http.gateway_api import Api
from services.gateway.metrics import GatewayMetrics
from services.gateway.protocol.front_auth import Authenticator, tls_of
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
        Authenticator(settings)
        tls_of(settings)
        self.catalog = Catalog(secrets.randbits(16), settings.watch_changes)
        self.api: Api | None = None
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
        return fold(state, message.seq, message.time, event)

    async def start(self, context: Context[GatewayState, Place]) -> None:
        """Listen; until the log was read, resources answer that it is being read."""
        self._ends = {name: (await context.logs[name].identity()).last_seq for name in (FACTS.name, OBSERVED.name)}
        reader = Reader(self.catalog, Encoder(context.blobs), context.clock, self.grown)
        metrics = GatewayMetrics(context.metrics.registry, context.metrics.reads, self.catalog, reader)
        context.health.check("catalog", lambda: "" if self._ready else "the log is still being read")
        histories = Histories(context.logs)
        self.api = Api(self._settings, reader, histories, context.health, metrics, loaded=lambda: self._ready)
        await self.api.start()
        context.health.fact("api", lambda: self.api.url if self.api is not None else "")
        self._log.info("api", url=self.api.url)

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

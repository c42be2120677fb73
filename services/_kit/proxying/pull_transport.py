"""Carries requests to pull members: as frames to their agents, which greet over their own accounts and answer there.

An agent's greeting is a request whose answers are the frames of this side: the server made up its reply subject, and
only that agent hears it. The frames of an agent come on a subject of one stream, which only its account may send to.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import structlog
from msgspec import Struct
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from schemas.subjects import SubjectError, unescape
from services._kit.base.clock import Clock
from services._kit.base.pacing import Bucket
from services._kit.concurrency.supervision import Supervised, spawn, supervise
from services._kit.concurrency.tasks import end
from services._kit.log.connection import Connection
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberUnreachable,
)
from services._kit.proxying.tunnel_frames import (
    GREETING_SECONDS,
    HERE,
    UNREACHABLE,
    Data,
    End,
    FrameError,
    Greeting,
    Head,
    Open,
    greeting,
    sendable,
    unpacked,
    unsuitable_head,
    unsuitable_open,
)
from services._kit.proxying.tunnel_stream import Patience, TunnelStream, may_wait
from services._rules.identity.accounts import tunnel_subject
from services._rules.proxying.request_records import plain

log = structlog.get_logger("tunnel")

MOST_PER_MEMBER: Final = 512
"""Requests of one member under way through this process."""
MOST_SESSIONS: Final = 4
"""Greetings of one cluster that are believed at a time: an agent, and those that take its place."""
SESSIONS: Final = (0.5, 10.0)
"""How many new sessions of a cluster are taken in a second, and at once."""
FORGOTTEN_SECONDS: Final = 2.6 * GREETING_SECONDS
"""After so long without a greeting an agent counts as gone."""
HEAD_SECONDS: Final = 75.0
"""How long an agent has to bring the head of an answer; it asks its API server for less."""
LOOK_SECONDS: Final = 2.0
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REPLIES: Final = ("_R_.", "_INBOX.")


class _RouteLost(MemberUnreachable):
    """The agent that was asked is gone, and another one, or the same again, may be there."""


class Route(Struct, eq=False):
    """The way to an agent: the reply subject of its last greeting, and when that came (monotonic)."""

    reply: str
    instance: str
    heard: float
    streams: set[PullExchange]


class PullExchange:
    """An Exchange with a pull member."""

    def __init__(self, transport: PullTransport, request: MemberRequest, route: Route) -> None:
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self.request = request
        self.route = route
        self._transport = transport
        self._answered = asyncio.Event()
        self._subscription: Any = None
        self._sending: asyncio.Task[None] | None = None
        self._closed = False
        self.stream = TunnelStream(
            secrets.token_hex(16),
            lambda data: transport.connection.publish(self.route.reply, data),
            transport.clock.monotonic,
        )

    async def open(self, body: AsyncIterator[bytes] | None) -> None:
        """Send the request and wait for the head of the answer."""
        request, stream = self.request, self.stream

        def first(name: str, number: int) -> Open:
            return Open(
                name,
                number,
                request.method,
                request.path,
                sendable(request.headers),
                request.user,
                request.groups,
                request.upgrade,
                whole=body is None and not request.upgrade,
            )

        problem = unsuitable_open(first(stream.id, 0))
        if problem:
            raise MemberRefused(f"the request cannot be carried to {request.cluster}: {problem}")
        try:
            subject = tunnel_subject(request.cluster, stream.id)
            self._subscription = await self._transport.connection.listen(subject, self._hear)
        except NatsError as error:
            raise MemberUnreachable(f"the log's server cannot be reached: {error}") from error
        await stream.first(first)
        try:
            async with Patience(None if may_wait(request) else HEAD_SECONDS) as patience:
                if body is not None:
                    self._sending = spawn(f"tunnel-body:{stream.id}", self._send(body, patience))
                await self._answered.wait()
        except TimeoutError:
            stream.fail(MemberUnreachable(f"the agent of {request.cluster} gave no answer within {HEAD_SECONDS:g} s"))
        if not self.status:
            assert stream.failure is not None
            raise stream.failure

    async def read(self) -> bytes:
        """The next bytes; see Exchange."""
        try:
            return await self.stream.read()
        except MemberRefused as error:
            raise MemberUnreachable(str(error)) from error

    async def write(self, data: bytes) -> None:
        """Send bytes after an upgrade; see Exchange."""
        try:
            await self.stream.write(data)
        except MemberRefused as error:
            raise MemberUnreachable(str(error)) from error

    async def close(self) -> None:
        """End it."""
        if self._closed:
            return
        self._closed = True
        if self._sending is not None:
            await end(self._sending)
        complete = self.stream.ended and self.stream.failure is None
        if complete and not self.request.upgrade:
            self.stream.close()
        else:
            await self.stream.cancel()
        self._transport.closed(self)
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except NatsError:
                # The connection is gone, and the subscription with it.
                return

    def fail(self, text: str, kind: type[MemberUnreachable] = MemberUnreachable) -> None:
        """It broke off."""
        self.stream.fail(kind(text))
        self._answered.set()

    async def _send(self, body: AsyncIterator[bytes], patience: Patience) -> None:
        stream = self.stream
        try:
            async for part in body:
                await stream.write(part)
                patience.moved()
            await stream.end()
        except (MemberUnreachable, MemberRefused):
            # Who reads the answer is told.
            return
        except Exception as error:  # noqa: BLE001 - whatever broke the caller's body: the member must not take it for whole
            await stream.cancel(UNREACHABLE)
            self.fail(f"the request broke off: {plain(str(error), 200)}")

    def _hear(self, message: Msg) -> None:
        """Take in a frame; called while messages are read."""
        if self.stream.over:
            return
        try:
            frame = unpacked(message.data)
            if frame.id != self.stream.id:
                raise FrameError("a frame of another stream")
            self.stream.heard(frame)
            match frame:
                case Open():
                    raise FrameError("an agent does not ask")
                case Head():
                    problem = unsuitable_head(frame, self.request.upgrade)
                    if self.status or problem:
                        raise FrameError(problem or "a second head of an answer")
                    self.status, self.headers = frame.status, frame.headers
                case _:
                    if not self.status and isinstance(frame, Data | End):
                        raise FrameError("an answer without a head")
                    self.stream.take(frame)
        except FrameError as error:
            log.warning("answer_broken", cluster=self.request.cluster, reason=str(error))
            self.fail(f"the agent of {self.request.cluster} broke the rules of its answers: {error}")
        if self.status or self.stream.failure is not None:
            self._answered.set()


class PullTransport:
    """A MemberTransport for pull members.

    Give it a connection of its own: what agents send must not hold up the log.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.connection = connection
        self.clock = clock
        self.refused = 0
        """Greetings that could not be read."""
        self._routes: dict[str, dict[str, Route]] = {}
        self._fresh: dict[str, Bucket] = {}
        self._told = Bucket(1.0, 5.0)
        self._greeted = asyncio.Event()
        self._settled = 0.0
        self._subscription: Any = None
        self._looking: Supervised | None = None

    async def start(self) -> None:
        """Listen to greetings from now on."""
        self._begin()
        self.connection.on_lost(self._lost)
        self.connection.on_regained(self._begin)
        self._subscription = await self.connection.listen("tunnel.*." + HERE, self._greet)
        self._looking = supervise("tunnel", self._look)

    async def stop(self) -> None:
        """End every request."""
        self.connection.forget(self._lost)
        self.connection.forget(self._begin)
        if self._looking is not None:
            await self._looking.close()
        for exchange in self._exchanges():
            exchange.fail("this service stops")
            await exchange.close()
        if self._subscription is not None and not self.connection.nc.is_closed:
            await self._subscription.unsubscribe()

    @property
    def under_way(self) -> int:
        """Requests that did not end yet."""
        return len(self._exchanges())

    @property
    def answering(self) -> int:
        """Clusters whose agents answer requests at the moment."""
        return sum(self.answers(cluster) for cluster in self._routes)

    def answers(self, cluster: str) -> bool:
        """Whether the agent of a cluster answers requests at the moment."""
        return self._route(cluster) is not None

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request and wait for the head of its answer; see MemberTransport."""
        try:
            return await self._open(request, body)
        except _RouteLost:
            if request.method not in _REPEATABLE or body is not None:
                raise
            # The answer had not begun: nothing is lost by asking the agent that is there now.
            return await self._open(request, body)

    async def _open(self, request: MemberRequest, body: AsyncIterator[bytes] | None) -> Exchange:
        route = await self._way(request.cluster)
        if sum(len(other.streams) for other in self._routes[request.cluster].values()) >= MOST_PER_MEMBER:
            raise MemberUnreachable(
                f"{MOST_PER_MEMBER} requests for {request.cluster} are under way already; try again when some ended"
            )
        exchange = PullExchange(self, request, route)
        route.streams.add(exchange)
        try:
            await exchange.open(body)
        except BaseException:
            await asyncio.shield(exchange.close())
            raise
        return exchange

    def takes(self, cluster: str) -> bool:
        """Whether an agent of a member takes requests at the moment."""
        return self._route(cluster) is not None

    def closed(self, exchange: PullExchange) -> None:
        """Forget an exchange."""
        exchange.route.streams.discard(exchange)

    async def _way(self, cluster: str) -> Route:
        """The way to the agent; one that may not have greeted since this process listens is waited for."""
        while (route := self._route(cluster)) is None:
            if not self.connection.is_connected:
                raise MemberUnreachable(f"requests for {cluster} go over the log's server, which cannot be reached")
            left = self._settled - self.clock.monotonic()
            if left <= 0:
                raise MemberUnreachable(
                    f"the agent of {cluster} does not answer requests: it is not connected, or its setting "
                    "FLEETLOG_AGENT_REQUESTS is off (docs/agents.md)"
                )
            self._greeted.clear()
            try:
                async with asyncio.timeout(left):
                    await self._greeted.wait()
            except TimeoutError:
                continue
        return route

    def _route(self, cluster: str) -> Route | None:
        since = self.clock.monotonic() - FORGOTTEN_SECONDS
        routes = [route for route in self._routes.get(cluster, {}).values() if route.heard >= since]
        return max(routes, key=lambda route: route.heard, default=None)

    def _begin(self) -> None:
        """Agents that answer greet within a moment from now on."""
        self._settled = self.clock.monotonic() + GREETING_SECONDS + LOOK_SECONDS

    def _lost(self) -> None:
        for exchange in self._exchanges():
            exchange.fail("the connection to the log's server was lost")
        self._routes.clear()
        self._greeted.set()

    def _greet(self, message: Msg) -> None:
        """Take in a greeting; called while messages are read."""
        try:
            cluster = unescape(message.subject.split(".")[1])
            found = greeting(message.data)
        except (FrameError, SubjectError) as error:
            self.refused += 1
            if not self._told.take(0, self.clock.monotonic()):
                self._told.take(1, self.clock.monotonic())
                log.info("greeting_refused", subject=message.subject[:200], reason=str(error))
            return
        if not found.leaves and not message.reply.startswith(_REPLIES):
            self.refused += 1
            return
        self._welcome(cluster, found, message.reply)

    def _welcome(self, cluster: str, found: Greeting, reply: str) -> None:
        known = self._routes.get(cluster, {}).get(found.session)
        now = self.clock.monotonic()
        if found.leaves:
            if known is not None:
                self._drop(cluster, found.session, f"the agent of {cluster} stops")
            return
        if known is not None:
            known.reply, known.heard = reply, now
            return
        fresh = self._fresh.setdefault(cluster, Bucket(*SESSIONS))
        if fresh.take(0, now):
            self.refused += 1
            return
        fresh.take(1, now)
        routes = self._routes.setdefault(cluster, {})
        for session, route in list(routes.items()):
            # The same agent with another session has forgotten what it did in the one before.
            if route.instance == found.instance or len(routes) >= MOST_SESSIONS:
                self._drop(cluster, session, f"the agent of {cluster} began again")
        self._routes.setdefault(cluster, {})[found.session] = Route(reply, found.instance, now, set())
        log.info("agent_answers", cluster=cluster, instance=plain(found.instance, 128))
        self._greeted.set()

    def _drop(self, cluster: str, session: str, why: str) -> None:
        route = self._routes[cluster].pop(session)
        if not self._routes[cluster]:
            del self._routes[cluster]
        for exchange in list(route.streams):
            exchange.fail(why, _RouteLost)

    async def _look(self) -> None:
        """Fail what belongs to an agent that is gone, and keep the rest alive, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            since = self.clock.monotonic() - FORGOTTEN_SECONDS
            for cluster, routes in list(self._routes.items()):
                for session in [name for name, route in routes.items() if route.heard < since]:
                    self._drop(cluster, session, f"the agent of {cluster} does not answer any more")
                    log.info("agent_silent", cluster=cluster)
            for exchange in self._exchanges():
                try:
                    await exchange.stream.look()
                except MemberUnreachable as error:
                    exchange.fail(str(error))

    def _exchanges(self) -> list[PullExchange]:
        return [exchange for routes in self._routes.values() for route in routes.values() for exchange in route.streams]

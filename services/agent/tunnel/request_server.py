"""Answers requests that the hub carries to this member: greets, takes frames, and works each request off on its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from msgspec.structs import replace
from nats.aio.msg import Msg

from schemas.events.request import AGENT_SIDE, MemberRequested
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end, first_of
from services._kit.log.ids import random_id
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services._kit.proxying.tunnel_frames import (
    GONE,
    GREETING_SECONDS,
    HERE,
    REFUSED,
    SWITCHING,
    UNREACHABLE,
    Cancel,
    FrameError,
    Greeting,
    Head,
    Open,
    packed,
    sendable,
    unpacked,
    unsuitable_head,
    unsuitable_open,
)
from services._kit.proxying.tunnel_stream import Patience, TunnelStream, may_wait
from services._rules.identity.accounts import tunnel_subject
from services._rules.proxying.request_records import on_record
from services.agent.hub_connection import HubConnection, unlisten
from services.agent.tunnel.allow_list import AllowList

log = structlog.get_logger("agent.requests")

MOST: Final = 256
"""Requests under way at a time."""
MOST_OF_ONE: Final = 128
"""Requests of one user under way at a time."""
HEAD_SECONDS: Final = 60.0
"""How long the member's API server has to begin its answer."""
STALLED_SECONDS: Final = 300.0
"""How long the caller may take nothing of an answer that is not a watch, a log or a connection."""
AGAIN_SECONDS: Final = 1.0
"""After so long a greeting that failed is tried again at the latest."""
MOST_TURNING: Final = 64
LOOK_SECONDS: Final = 5.0

Ended = Callable[[MemberRequested], None]


class RequestServer:
    """The agent's side of requests; `ended` is called with each that ended, for the record."""

    def __init__(
        self,
        hub: HubConnection,
        cluster: str,
        instance: str,
        allowed: AllowList,
        member: MemberTransport,
        clock: Clock,
        ended: Ended,
    ) -> None:
        self.served = 0
        self.turned_away = 0
        """Requests that were not permitted, or were too many."""
        self._hub = hub
        self._cluster = cluster
        self._instance = instance
        self._allowed = allowed
        self._member = member
        self._clock = clock
        self._ended = ended
        self._work: dict[str, _Work] = {}
        self._of_users: Counter[str] = Counter()
        self._turning: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """Requests that did not end yet."""
        return len(self._work)

    async def run(self) -> None:
        """Answer requests whenever the hub is connected, until cancelled."""
        while True:
            await self._hub.wait_connected()
            subscription: Any = None
            session = random_id()
            try:
                # What the hub began before the connection broke is over: it is told so by the new session.
                inbox, subscription = await self._hub.hear(self._hear)
                await first_of(self._greet(session, inbox), self._look(), self._hub.wait_lost())
            except LogError as error:
                log.info("greeting_failed", reason=str(error))
                # The loss is told in a moment, unless there is a connection again already.
                await first_of(self._hub.wait_lost(), asyncio.sleep(AGAIN_SECONDS))
            finally:
                with suppress(LogError):
                    await self._say_that(session, leaves=True)
                await end(*(work.task for work in list(self._work.values())))
                if subscription is not None:
                    await unlisten(subscription)

    async def _greet(self, session: str, inbox: str) -> None:
        while True:
            await self._say_that(session, inbox)
            await asyncio.sleep(GREETING_SECONDS)

    async def _say_that(self, session: str, inbox: str = "", *, leaves: bool = False) -> None:
        said = packed(Greeting(instance=self._instance, session=session, leaves=leaves))
        await self._hub.publish(tunnel_subject(self._cluster, HERE), said, reply=inbox)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for work in list(self._work.values()):
                try:
                    await work.stream.look()
                except MemberUnreachable:
                    continue
                finally:
                    if work.stream.failure is not None:
                        work.task.cancel()

    def _hear(self, message: Msg) -> None:
        """Take in a frame of the hub; called while messages are read."""
        try:
            frame = unpacked(message.data)
        except FrameError as error:
            log.warning("frame_refused", reason=str(error))
            return
        work = self._work.get(frame.id)
        if isinstance(frame, Open):
            if work is None:
                self._begin(frame)
            return
        if work is None:
            # It ended here while this was on its way.
            return
        try:
            work.stream.heard(frame)
            if isinstance(frame, Head):
                raise FrameError("a hub does not answer")
            work.stream.take(frame)
        except FrameError as error:
            log.warning("request_broken", reason=str(error))
            work.stream.fail(MemberUnreachable(f"the frames of the request are not in order: {error}"))
            work.task.cancel()
            return
        if isinstance(frame, Cancel):
            work.problem = "the caller left before its end"
            work.task.cancel()

    def _begin(self, frame: Open) -> None:
        stream = TunnelStream(frame.id, self._sender(frame.id), self._clock.monotonic)
        problem = unsuitable_open(frame)
        try:
            stream.heard(frame)
        except FrameError as error:
            problem = problem or str(error)
        if problem:
            log.warning("request_refused", reason=problem)
            self._turn_away(stream, REFUSED, f"the agent of {self._cluster} cannot take the request: {problem}")
        elif len(self._work) >= MOST:
            text = f"{MOST} requests are under way in {self._cluster} already; try again when some ended"
            self._turn_away(stream, UNREACHABLE, text)
        elif self._of_users[frame.user] >= MOST_OF_ONE:
            text = f"{MOST_OF_ONE} requests of {frame.user} are under way in {self._cluster} already"
            self._turn_away(stream, UNREACHABLE, text)
        else:
            self._work[frame.id] = _Work(self, stream, frame, self._clock)
            self._of_users[frame.user] += 1

    def _turn_away(self, stream: TunnelStream, why: str, text: str) -> None:
        self.turned_away += 1
        # Where very many are turned away, most find that out by the silence.
        if len(self._turning) < MOST_TURNING:
            task = spawn("request-turned-away", stream.cancel(why, text))
            self._turning.add(task)
            task.add_done_callback(self._turning.discard)

    def _sender(self, name: str) -> Callable[[bytes], Any]:
        subject = tunnel_subject(self._cluster, name)
        return lambda data: self._hub.publish(subject, data)

    async def answer(self, work: _Work) -> None:
        """Carry a request to the API server and its answer back; raises MemberRefused and MemberUnreachable."""
        stream, asked = work.stream, work.asked
        problem = self._allowed.problem(asked.method, asked.path)
        if problem:
            self.turned_away += 1
            raise MemberRefused(f"cluster {self._cluster}: {problem}")
        request = work.request(self._cluster)
        seconds = None if may_wait(request) else HEAD_SECONDS
        try:
            async with Patience(seconds) as patience:
                body = None if asked.whole or asked.upgrade else _body(stream, patience)
                exchange = await self._member.open(request, body)
        except TimeoutError:
            text = f"the API server of {self._cluster} did not answer within {HEAD_SECONDS:g} s"
            raise MemberUnreachable(text) from None
        try:
            head = Head(stream.id, 0, exchange.status, sendable(exchange.headers))
            problem = unsuitable_head(head, asked.upgrade)
            if problem:
                raise MemberUnreachable(f"the answer of the API server of {self._cluster} is not carried: {problem}")
            work.status = exchange.status
            await stream.first(lambda _, number: replace(head, number=number))
            if exchange.status == SWITCHING:
                await first_of(_bring(exchange, stream, None), _take(stream, exchange))
            else:
                await _bring(exchange, stream, seconds)
            await stream.end()
            self.served += 1
        finally:
            await exchange.close()

    def over(self, work: _Work) -> None:
        """Forget a request that ended, and hand it over for the record."""
        self._work.pop(work.stream.id, None)
        self._of_users[work.asked.user] -= 1
        if not self._of_users[work.asked.user]:
            del self._of_users[work.asked.user]
        asked, stream = work.asked, work.stream
        event = MemberRequested(
            cluster=self._cluster,
            side=AGENT_SIDE,
            by=self._instance,
            user=asked.user,
            groups=asked.groups,
            method=asked.method,
            path=asked.path,
            upgrade=asked.upgrade,
            status=work.status,
            problem=work.problem,
            started=work.started,
            seconds=self._clock.monotonic() - work.began,
            sent=stream.received,
            received=stream.sent,
        )
        self._ended(on_record(event, self._cluster, AGENT_SIDE, self._clock.now()))


class _Work:
    """One request under way, and the task that works it off."""

    def __init__(self, server: RequestServer, stream: TunnelStream, asked: Open, clock: Clock) -> None:
        self.stream = stream
        self.asked = asked
        self.status = 0
        self.started = clock.now()
        self.began = clock.monotonic()
        self.problem = "it was given up before its end"
        self._server = server
        self.task = spawn(f"request:{stream.id}", self._run())
        self.task.add_done_callback(lambda _: server.over(self))

    def request(self, cluster: str) -> MemberRequest:
        """The request as a transport takes it."""
        asked = self.asked
        return MemberRequest(
            cluster, asked.method, asked.path, asked.headers, asked.user, asked.groups, upgrade=asked.upgrade
        )

    async def _run(self) -> None:
        why = GONE
        try:
            await self._server.answer(self)
            self.problem = ""
        except MemberRefused as error:
            why, self.problem = REFUSED, str(error)
        except MemberUnreachable as error:
            why, self.problem = UNREACHABLE, str(error)
        finally:
            if self.problem:
                await self.stream.cancel(why, self.problem)
            self.stream.close()


async def _body(stream: TunnelStream, patience: Patience) -> AsyncIterator[bytes]:
    """The body of a request as it comes; as long as it does, the API server has time to answer."""
    while data := await stream.read():
        patience.moved()
        yield data


async def _bring(exchange: Exchange, stream: TunnelStream, seconds: float | None) -> None:
    """What the member sends, to the hub; an answer that may not wait is given up where it stands still."""
    try:
        while True:
            async with asyncio.timeout(seconds):
                data = await exchange.read()
            if not data:
                return
            async with asyncio.timeout(seconds and STALLED_SECONDS):
                await stream.write(data)
    except TimeoutError:
        raise MemberUnreachable("the answer stood still for too long") from None


async def _take(stream: TunnelStream, exchange: Exchange) -> None:
    """What the hub sends, to the member."""
    while data := await stream.read():
        await exchange.write(data)

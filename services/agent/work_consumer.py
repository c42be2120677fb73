"""Reads the works of the agent's cluster and the interpreter configuration through a consumer that the hub creates.

The consumer is the hub's. Its numbering must be without gaps; a gap, silence or the consumer's end lead to a new one
that starts behind what was read. Nothing is acknowledged: the agent's own position is what counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct
from nats.aio.msg import Msg

from schemas.agent import HelloAnswer
from schemas.codec import DecodeError, Known
from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from services._kit.base.log_errors import LogError
from services._kit.base.pacing import Backoff
from services._kit.concurrency.tasks import set_within
from services._kit.log.jetstream_api import NOTHING, ended, positions, request
from services._kit.runtime.interning import decoded
from services._rules.identity.accounts import next_subject
from services.agent.hub_connection import HubConnection, unlisten
from services.agent.state import AgentState

log = structlog.get_logger("agent.following")

IDLE: Final = 2.0
MISSED: Final = 3
EXPIRES: Final = 60.0
WINDOW: Final = 1024
PULL_BYTES: Final = 4 << 20
BACKOFF: Final = Backoff(0.5, 2.0)


class FollowStats(Struct):
    """Counters for metrics and tests."""

    consumers: int = 0
    works: int = 0
    gaps: int = 0
    unreadable: int = 0


class WorkConsumer:
    """Reads works; `greet` requests a consumer and takes in the answer, `take` is called with every object touched.

    `configure` is called with every fact about interpretation. Objects wait for the facts that the hub names: written
    before, they would lose what is to be kept of them.
    A consumer is requested only while `may_ask` returns True: the request removes the consumer of a second agent.
    """

    def __init__(
        self,
        hub: HubConnection,
        state: AgentState,
        greet: Callable[[], Any],
        take: Callable[[ObjectKey], None],
        configure: Callable[[PolicyEvent], None],
        may_ask: Callable[[], bool],
    ) -> None:
        self.stats = FollowStats()
        self.trouble = "no works were read from the hub yet"
        """Why no works can be read; empty while they can."""
        self.caught_up = asyncio.Event()
        """Set once everything was read that there was when the reading began."""
        self.reading = False
        """Whether a consumer is being read; heartbeats are sent only then."""
        self._hub = hub
        self._state = state
        self._greet = greet
        self._take = take
        self._configure = configure
        self._may_ask = may_ask
        self._again = asyncio.Event()
        self._missing: set[PolicyKey] = set()
        self._waiting: dict[ObjectKey, None] = {}
        self._inbox = ""
        self._subscription: Any = None
        self._expected = 1
        self._received = 0
        self._on_way = 0
        self._quiet = 0
        self._why = ""
        hub.on_lost(partial(self.restart, "the connection was lost"))

    def restart(self, why: str) -> None:
        """Ask for a new consumer."""
        self._why = self._why or why
        self._again.set()

    async def run(self) -> None:
        """Read until cancelled."""
        failures = 0
        try:
            while True:
                await self._hub.wait_connected()
                problem = await self._begin()
                if problem:
                    self._set_trouble(problem)
                    failures += 1
                    await asyncio.sleep(BACKOFF.pause(failures))
                    continue
                began = self._received
                self._set_trouble("")
                self.reading = True
                await self._watch()
                self.reading = False
                log.info("works_interrupted", reason=self._why, position=self._state.position)
                failures = 0 if self._received > began else failures + 1
                if failures > 1:
                    # A consumer that ends at once, again and again, is not asked for without a break.
                    await asyncio.sleep(BACKOFF.pause(failures))
        finally:
            self.reading = False
            await self._drop()

    def _set_trouble(self, problem: str) -> None:
        if problem and problem != self.trouble:
            log.warning("works_do_not_come", reason=problem)
        self.trouble = problem

    async def _begin(self) -> str:
        """Get a consumer and ask it for works; why that did not work."""
        await self._drop()
        self._again.clear()
        self._why = ""
        if not self._may_ask():
            return "it is not certain that this agent is the one to act"
        try:
            answer: HelloAnswer = await self._greet()
            if answer.problem:
                return answer.problem
            self._await_configured(answer)
            self._expected, self._on_way, self._quiet = 1, 0, 0
            self._received = self._state.position
            self._inbox, self._subscription = await self._hub.listen(self._answer)
            self.stats.consumers += 1
            await self._ask()
        except (LogError, msgspec.MsgspecError) as error:
            return str(error)
        return ""

    def _await_configured(self, answer: HelloAnswer) -> None:
        """Have objects wait until it is known how to interpret them: all there is of that comes with a fresh start."""
        known = self._state.configured.keys() if answer.start else set()
        self._missing = set(answer.configured or ()) - known
        self._go_on()

    def _go_on(self) -> None:
        """Hand over the objects that waited, unless they still do."""
        if self._missing:
            return
        waiting, self._waiting = self._waiting, {}
        for key in waiting:
            self._take(key)

    def _all_read(self) -> None:
        self._missing.clear()
        self._go_on()
        self.caught_up.set()

    async def _drop(self) -> None:
        subscription, self._subscription, self._inbox = self._subscription, None, ""
        if subscription is not None:
            await unlisten(subscription)

    async def _watch(self) -> None:
        """Return once a new consumer is needed; ticks count heartbeats that did not come."""
        while not self._again.is_set():
            if not await set_within(self._again, IDLE):
                self._quiet += 1
                if self._quiet > MISSED:
                    self.restart("the hub was silent")

    async def _answer(self, message: Msg) -> None:
        # The server puts a request's answers on a subject of the inbox; what a former consumer still sends is not ours.
        if not self._inbox or self._again.is_set():
            return
        self._quiet = 0
        reply = message.reply
        if reply.startswith("$JS.ACK."):
            self._message(message, reply)
        else:
            self._status(message)
        await self._ask()

    def _message(self, message: Msg, reply: str) -> None:
        seq, number, _, left = positions(reply)
        self._on_way -= 1
        if number != self._expected or seq <= self._received:
            self.stats.gaps += 1
            self.restart(f"message {number} came where {self._expected} was expected")
            return
        self._expected += 1
        self._received = seq
        try:
            self._fold(decoded(message.subject, message.data), seq)
        except DecodeError as error:
            # The fact is of a newer version that this one cannot decode; the previous fact stays in force.
            self.stats.unreadable += 1
            log.warning("work_unreadable", position=seq, reason=str(error))
        if not left:
            self._all_read()

    def _fold(self, event: Known, seq: int) -> None:
        if isinstance(event, WorkRendered | WorkWithdrawn):
            self.stats.works += 1
            key = self._state.fold(event, seq)
            if key is not None:
                self._waiting[key] = None
                self._go_on()
        elif isinstance(event, PolicyChanged | PolicyDeleted) and self._state.configure(event, seq):
            self._configure(event)
            self._missing.discard(event.key)
            self._go_on()

    def _status(self, message: Msg) -> None:
        headers = message.headers or {}
        if headers.get("Status") == NOTHING:
            # Nothing was on its way for a while: what did not come by now does not come.
            self._all_read()
            return
        end = ended(headers)
        if end.why:
            self.restart(f"the consumer ended: {end.why}")
            return
        self._on_way = end.on_way(self._on_way)

    async def _ask(self) -> None:
        """Request more once half of the window is free."""
        room = WINDOW - self._on_way
        if room < WINDOW // 2 or self._again.is_set() or not self._inbox:
            return
        self._on_way += room
        try:
            more = request(room, PULL_BYTES, EXPIRES, IDLE)
            await self._hub.publish(next_subject(self._state.cluster), more, self._inbox)
        except LogError as error:
            self.restart(str(error))

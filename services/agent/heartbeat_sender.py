"""Sends heartbeats to the hub: each carries a sample of the member, and the first of a session requests a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from schemas.agent import HEARTBEAT_SECONDS, Expiry, Hello, HelloAnswer, Sample
from schemas.events.policy import PolicyDeleted
from schemas.keys import ObjectKey
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.concurrency.debounce import Debouncer
from services._kit.concurrency.tasks import set_within
from services._kit.kube.client import KubeClient
from services._kit.log.ids import random_id
from services._kit.members.member_probe import DiscoveryCache, probe_cluster
from services._rules.identity.accounts import hello_subject
from services.agent.hub_connection import HubConnection
from services.agent.state import AgentState, not_configured, take_answer

log = structlog.get_logger("agent.greeting")

PATIENCE: Final = 3.0
"""Seconds that a heartbeat waits for its answer."""
_DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")


class HeartbeatSender:
    """Sends heartbeats; `on_other_log` is called when the hub's log or the membership is another one.

    `on_gone` is called with deletions of interpreter configuration that the log does not record, `on_resync` when the
    hub may hold other reports than this agent's.
    """

    def __init__(
        self,
        hub: HubConnection,
        state: AgentState,
        instance: str,
        member: KubeClient,
        clock: Clock,
        on_other_log: Callable[[], None],
        on_gone: Callable[[PolicyDeleted], None],
        on_resync: Callable[[], None] = lambda: None,
        expiry: Callable[[], Expiry | None] = lambda: None,
        answers: str = "",
    ) -> None:
        self.hellos = 0
        self.problem = ""
        """Why the hub does not serve this agent, in its own words."""
        self.session = ""
        """The session in which reports count: named by the last heartbeat with a new session that was answered."""
        self.greeting = False
        """Whether a heartbeat with a new session is under way."""
        self._hub = hub
        self._state = state
        self._instance = instance
        self._member = member
        self._clock = clock
        self._on_other_log = on_other_log
        self._on_gone = on_gone
        self._on_resync = on_resync
        self._expiry = expiry
        self._answers = answers
        self._interval = HEARTBEAT_SECONDS
        self._models: tuple[dict[str, object], ...] | None = None
        self._sample: Sample | None = None
        self._served = DiscoveryCache()
        self._early = asyncio.Event()
        self._restless = Debouncer(self._early.set)

    async def for_consumer(self) -> HelloAnswer:
        """Ask for a consumer behind what was read; raises LogError or a msgspec error."""
        if self._sample is None:
            await self._look()
        session = random_id()
        self.greeting = True
        try:
            answer = await self._send(session)
        finally:
            self.greeting = False
        if not answer.problem:
            self.session = session
        gone = not_configured(self._state, answer) if not answer.problem else []
        for event in gone:
            self._state.configure(event, 0)
            self._on_gone(event)
        if not answer.problem and take_answer(self._state, answer):
            log.warning("joined_again", cluster=self._state.cluster, uid=answer.uid)
        elif answer.resync:
            self._on_resync()
        return answer

    def something_changed(self, key: ObjectKey) -> None:
        """Schedule a sample of the member, debounced.

        A sample lists all nodes and pods, which would load the member's API during a burst of changes. Discovery is
        read at the interval, and when a definition changed.
        """
        if (key.group, key.resource) == _DEFINITIONS:
            self._served.definitions_changed(asyncio.get_running_loop().time())
        self._restless.changed()

    async def run(self) -> None:
        """Sample the member and send a heartbeat at the interval the hub asked for, until cancelled."""
        try:
            while True:
                self._early.clear()
                await self._look()
                if self._hub.is_connected:
                    await self._beat()
                await set_within(self._early, self._interval)
        finally:
            self._restless.close()

    async def _beat(self) -> None:
        try:
            answer = await self._send()
        except (LogError, msgspec.MsgspecError) as error:
            log.info("hello_unanswered", reason=str(error))
            return
        known = self._state
        if not answer.problem and known.log and (answer.log, answer.uid) != (known.log, known.uid):
            self._on_other_log()

    async def _look(self) -> None:
        now = self._clock.now()
        self._served.grow_old(asyncio.get_running_loop().time(), self._interval)
        # Before the hub names the resource models, nodes cannot be counted by them: that is no news of the member.
        models = None if self._models is None else list(self._models)
        sample = await probe_cluster(self._member, self._state.cluster, models, now, self._served)
        self._sample = replace(sample, expiry=self._expiry(), answers=self._answers)

    async def _send(self, session: str = "") -> HelloAnswer:
        """Send a heartbeat, with the name of a new session where a consumer is requested."""
        state = self._state
        hello = Hello(
            cluster=state.cluster,
            instance=self._instance,
            at=self._clock.now(),
            uid=state.uid,
            fresh=bool(session),
            log=state.log,
            after=state.position,
            sample=self._sample,
            session=session,
            before=self.session if session else "",
        )
        self.hellos += 1
        message = await self._hub.request(hello_subject(state.cluster), msgspec.json.encode(hello), timeout=PATIENCE)
        answer = msgspec.json.decode(message.data, type=HelloAnswer)
        self.problem = answer.problem
        self._interval = answer.heartbeat_seconds
        if not answer.problem:
            if self._models is None:
                self._early.set()
            self._models = answer.models
        return answer

"""Answers the hub's capacity queries from a node index of the member: polls for them with a request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from schemas.agent import WAIT_SECONDS, Reported, ReportedAnswer, RoomAnswers, RoomQuestions, TakenPods
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.base.pacing import Backoff
from services._kit.concurrency.tasks import set_within
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.members.node_informer import MemberView
from services._kit.members.unschedulable import NotCounted, unschedulable_replicas
from services._rules.capacity.general_estimate import demand_of
from services._rules.capacity.replica_estimate import Answers, Picture, read_requirements
from services._rules.capacity.reserved import PodClass
from services._rules.identity.accounts import reports_subject
from services._rules.kubernetes.quantity import QuantityError
from services.agent.hub_connection import HubConnection

log = structlog.get_logger("agent.estimating")

BACKOFF: Final = Backoff(0.2, 10.0)
SLACK: Final = 2.0
"""How much later than promised the hub may answer before it counts as gone."""
SOON: Final = 0.5
"""An answer that comes sooner and asks nothing is of a hub that does not hold requests back."""
LISTED_SECONDS: Final = 1.0
"""How long a question waits for the first lists of the member."""


class EstimateAnswers:
    """The picture of the member and the way of questions to it."""

    def __init__(
        self,
        hub: HubConnection,
        cluster: str,
        opener: Callable[[], Awaitable[KubeClient]],
        clock: Clock,
        session: Callable[[], str],
    ) -> None:
        self.answered = 0
        self._session = session
        self._hub = hub
        self._cluster = cluster
        self._subject = reports_subject(cluster)
        self._clock = clock
        self._picture = Picture()
        self._answers = Answers(self._picture)
        self._unlimited = Answers(_without_quotas(self._picture))
        self._version = 0
        self._listed = asyncio.Event()
        self._view = MemberView(cluster, opener, self._picture, self._changed)

    @property
    def trouble(self) -> str:
        """Why the member is not followed; empty while it is."""
        return self._view.trouble

    async def run(self) -> None:
        """Follow the member and answer until cancelled."""
        self._view.start()
        try:
            await self._serve()
        finally:
            await self._view.close()

    async def _serve(self) -> None:
        answers: tuple[RoomAnswers, ...] = ()
        pauses = BACKOFF.pauses()
        while True:
            await self._hub.wait_connected()
            began = self._clock.monotonic()
            questions = await self._ask(answers)
            answers = ()
            if questions:
                pauses = BACKOFF.pauses()
                answers = tuple([await self._answer(question) for question in questions])
                self.answered += len(answers)
            elif self._clock.monotonic() - began >= SOON and questions is not None:
                pauses = BACKOFF.pauses()
            else:
                await asyncio.sleep(next(pauses))

    async def _ask(self, answers: tuple[RoomAnswers, ...]) -> tuple[RoomQuestions, ...] | None:
        """Hand over answers and wait for questions; None where the hub did not answer."""
        body = msgspec.json.encode(Reported(waits=True, answers=answers, session=self._session()))
        try:
            message = await self._hub.request(self._subject, body, timeout=WAIT_SECONDS + SLACK)
            return msgspec.json.decode(message.data, type=ReportedAnswer).questions
        except (LogError, msgspec.MsgspecError) as error:
            log.info("questions_wait", reason=str(error))
            return None

    async def _answer(self, question: RoomQuestions) -> RoomAnswers:
        try:
            if question.workload is not None:
                return RoomAnswers(id=question.id, replicas=(await self._unschedulable(question),))
            # Without its lists the answer is that there is no opinion.
            await set_within(self._listed, LISTED_SECONDS)
            answers = self._answers if question.quotas else self._unlimited
            taken = {_want(item): item.count for item in question.taken}
            self._version += 1
            counts = [
                answers.replicas(read_requirements(stated), taken, self._version) for stated in question.requirements
            ]
            return RoomAnswers(id=question.id, replicas=tuple(counts))
        except (msgspec.ValidationError, QuantityError, ValueError, ApiError, Unreachable) as error:
            log.info("question_not_answered", reason=str(error))
            return RoomAnswers(id=question.id, problem=str(error))

    async def _unschedulable(self, question: RoomQuestions) -> int:
        client = self._view.client
        if client is None or not self._picture.complete:
            raise NotCounted(self._view.trouble or "the member is still being read")
        workload = question.workload or {}
        now = self._clock.now()
        return await unschedulable_replicas(client, self._picture.waiting, workload, question.threshold, now)

    def _changed(self) -> None:
        if self._picture.complete:
            self._listed.set()


def _without_quotas(picture: Picture) -> Picture:
    """The same nodes and pods, without limits by quotas."""
    other = Picture(quotas=False)
    other.rooms, other.waiting = picture.rooms, picture.waiting
    return other


def _want(item: TakenPods) -> PodClass:
    claim = msgspec.json.encode(item.claim, order="deterministic") if item.claim else b""
    return PodClass(item.namespace, demand_of(item.requests), claim, item.priority_class)

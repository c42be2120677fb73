"""Runs the descheduler: folds facts about Deployments, queries the estimator, and deschedules replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from schemas.agent import RoomAnswers
from schemas.keys import ObjectKey
from schemas.subjects import escape
from services._kit.base.log_errors import LogError
from services._kit.concurrency.keyed_work import Background
from services._kit.log.connection import Connection
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.decision import Decision
from services.descheduler.decide import Question, decide
from services.descheduler.metrics import Questions, register
from services.descheduler.settings import DeschedulerSettings
from services.descheduler.state import Answers, DeschedulerState, fold

AT_ONCE: Final = 16
"""Deployments that are asked about at the same time."""
_DEPLOYMENTS: Final = "deployments=2Eapps"
_FACETS: Final = ("binding", "placement", "eviction", "rollup", "descheduling")


class NoAnswer(Exception):
    """The estimator does not answer for every cluster; the message names the cluster and the reason."""


class Estimators:
    """Puts the question to the leading estimator, for all clusters at once; `timeout` in seconds is for all of them."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout

    async def unschedulable(self, key: ObjectKey, clusters: Sequence[str], threshold: float) -> dict[str, int]:
        """Replicas by cluster that have been without a node for more than `threshold` seconds.

        A cluster that has no opinion is left out. Raises NoAnswer when one cluster cannot be asked: then nothing is
        known for sure of the others either (docs/sources.md#descheduler).
        """
        workload = {"kind": "Deployment", "namespace": key.namespace, "name": key.name}
        body = msgspec.json.encode({"workload": workload, "threshold": threshold})
        answers = await asyncio.gather(*(self._ask(cluster, body) for cluster in clusters), return_exceptions=True)
        counts: dict[str, int] = {}
        for cluster, answer in zip(clusters, answers, strict=True):
            if isinstance(answer, BaseException):
                raise NoAnswer(f"cluster {cluster}: {answer}") from answer
            if answer.problem or not answer.replicas:
                raise NoAnswer(f"cluster {cluster}: {answer.problem or 'the estimator answered with no count'}")
            if answer.replicas[0] >= 0:
                counts[cluster] = answer.replicas[0]
        return counts

    async def _ask(self, cluster: str, body: bytes) -> RoomAnswers:
        try:
            answer = await self._connection.request(f"unschedulable.{escape(cluster)}", body, timeout=self._timeout)
        except LogError as error:
            raise NoAnswer(f"no estimator answered within {self._timeout:g} s ({type(error).__name__})") from error
        try:
            return msgspec.json.decode(answer.data, type=RoomAnswers)
        except msgspec.MsgspecError as error:
            raise NoAnswer(f"the estimator's answer cannot be read: {error}") from error


class Descheduler(ObjectDecider[DeschedulerState]):
    """Replicas without a node in, fewer replicas out."""

    name = "descheduler"
    states = DeschedulerState
    folds = staticmethod(fold)
    filters = tuple(f"{aggregate}.*.{_DEPLOYMENTS}.>" for aggregate in _FACETS)

    def __init__(self, settings: DeschedulerSettings, asker: Estimators | None = None) -> None:
        self._settings = settings
        self._asker = asker
        self._asking: Background[ObjectKey] = Background(concurrency=AT_ONCE)
        self._turns: dict[ObjectKey, float] = {}
        self._answers: dict[ObjectKey, Answers] = {}
        """Those of the estimator that no decision has used yet."""
        self._questions = Questions()
        self._log: Any = structlog.get_logger("descheduler")

    async def start(self, context: Context[DeschedulerState, ObjectKey]) -> None:
        """Register the metrics, and create the client of the estimator."""
        await super().start(context)
        if self._asker is None and context.connection is not None:
            self._asker = Estimators(context.connection, self._settings.scheduler_estimator_timeout)
        register(context.metrics, self._turns, self._questions)

    async def on_following(self) -> None:
        """Another instance asks now."""
        await self._asking.close()
        self._asking = Background(concurrency=AT_ONCE)
        self._turns.clear()
        self._answers.clear()

    async def stop(self) -> None:
        """End what is being asked."""
        await self._asking.close()

    def decide(self, state: DeschedulerState, key: ObjectKey, now: float) -> Decision:
        """What becomes of one Deployment."""
        interval, turn = self._settings.descheduling_interval, self._turns.get(key)
        # An answer serves one decision, whatever came of it.
        decision = decide(state, key, now, interval, turn, self._answers.pop(key, None))
        if decision.wake_at is None:
            self._turns.pop(key, None)
            self._questions.unanswered.discard(key)
        else:
            self._turns[key] = decision.wake_at
        return decision

    async def perform(self, effects: Sequence[object]) -> None:
        """Ask beside the decisions: a member that takes its time holds up no other Deployment."""
        for effect in effects:
            if not isinstance(effect, Question):
                raise TypeError(f"the descheduler has no effect {effect!r}")
            self._asking.submit(effect.key, partial(self._ask, effect))

    async def _ask(self, question: Question) -> None:
        key = question.key
        try:
            if self._asker is None:
                raise NoAnswer("there is no connection to ask over")
            threshold = self._settings.unschedulable_threshold
            counts = await self._asker.unschedulable(key, question.clusters, threshold)
        except NoAnswer as error:
            # The next turn asks again.
            self._questions.failed(key)
            self._log.warning("unschedulable replicas are not known", key=str(key), reason=str(error))
            return
        self._questions.answered(key)
        if any(counts.values()):
            self._answers[key] = Answers(question.seen, counts)
            self.context.mark((key,))

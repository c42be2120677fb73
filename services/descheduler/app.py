"""Runs the descheduler: folds facts about Deployments, queries the estimator, and deschedules replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from schemas.codec import Known
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import object_key
from services._kit.concurrency.keyed_work import Background
from services._kit.log.stream_port import Message
from services._kit.runtime.service import NOTHING, BaseService, Context, Decision
from services.descheduler.decide import Question, decide
from services.descheduler.metrics import Questions, register
from services.descheduler.settings import DeschedulerSettings
from services.descheduler.state import Answers, DeschedulerState, fold, forget
from services.descheduler.unschedulable_queries import Asker, Estimators, NoAnswer

AT_ONCE: Final = 16
"""Deployments that are asked about at the same time."""
_DEPLOYMENTS: Final = "deployments=2Eapps"
_FACETS: Final = ("binding", "placement", "eviction", "rollup", "descheduling")


class Descheduler(BaseService[DeschedulerState, ObjectKey]):
    """Replicas without a node in, fewer replicas out."""

    name = "descheduler"
    filters = tuple(f"{aggregate}.*.{_DEPLOYMENTS}.>" for aggregate in _FACETS)

    def __init__(self, settings: DeschedulerSettings, asker: Asker | None = None) -> None:
        self._settings = settings
        self._asker = asker
        self._context: Context[DeschedulerState, ObjectKey] | None = None
        self._asking: Background[ObjectKey] = Background(concurrency=AT_ONCE)
        self._turns: dict[ObjectKey, float] = {}
        self._questions = Questions()
        self._log: Any = structlog.get_logger("descheduler")

    async def start(self, context: Context[DeschedulerState, ObjectKey]) -> None:
        """Register the metrics, and create the client of the estimator."""
        self._context = context
        if self._asker is None and context.connection is not None:
            self._asker = Estimators(context.connection, self._settings.scheduler_estimator_timeout)
        register(context.metrics, self._turns, self._questions)

    async def on_following(self) -> None:
        """Another instance asks now."""
        await self._asking.close()
        self._asking = Background(concurrency=AT_ONCE)
        self._turns.clear()
        if self._context is not None:
            self._context.projection.state.answers.clear()

    async def stop(self) -> None:
        """End what is being asked."""
        await self._asking.close()

    def new_state(self) -> DeschedulerState:
        """An empty projection."""
        return DeschedulerState()

    def fold(self, state: DeschedulerState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact."""
        return fold(state, message.seq, message.subject, event)

    def forget(self, state: DeschedulerState, purged: Purged) -> None:
        """Drop the tombstones of what is gone."""
        forget(state, purged)

    def last_seq(self, state: DeschedulerState, subject: str) -> int:
        """Position of the last fact of ours on a subject."""
        return state.subjects.get(subject, 0)

    def unreadable(self, state: DeschedulerState, message: Message) -> Iterable[ObjectKey]:
        """The object whose facet a newer version wrote."""
        return (object_key(message.subject),)

    def recover(self, state: DeschedulerState) -> Iterable[ObjectKey]:
        """Every Deployment: some may lack replicas, and their turns are not stored."""
        return list(state.objects)

    def decide(self, state: DeschedulerState, key: ObjectKey, now: float) -> Decision:
        """What becomes of one Deployment."""
        verdict = decide(state, key, now, self._settings.descheduling_interval, self._turns.get(key))
        # An answer serves one decision, whatever came of it.
        state.answers.pop(key, None)
        if verdict.turn is None:
            self._turns.pop(key, None)
            self._questions.unanswered.discard(key)
            return NOTHING
        self._turns[key] = verdict.turn
        return Decision(
            events=() if verdict.event is None else (verdict.event,),
            wake_at=verdict.turn,
            effects=() if verdict.question is None else (verdict.question,),
        )

    async def perform(self, effects: Sequence[object]) -> None:
        """Ask beside the decisions: a member that takes its time holds up no other Deployment."""
        for effect in effects:
            if not isinstance(effect, Question):
                raise TypeError(f"the descheduler has no effect {effect!r}")
            self._asking.submit(effect.key, partial(self._ask, effect))

    async def _ask(self, question: Question) -> None:
        context, key = self._context, question.key
        assert context is not None
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
            context.projection.state.answers[key] = Answers(question.seen, counts)
            context.mark((key,))

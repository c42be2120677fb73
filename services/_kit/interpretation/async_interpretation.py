"""Requests missing results from scripts and webhooks for pure decisions, and requeues the keys when they arrive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog
from msgspec import Struct

from schemas.events.policy import PolicyEvent
from services._kit.base.health import Health
from services._kit.base.metrics import ReadCollector
from services._kit.base.pacing import Backoff
from services._kit.concurrency.keyed_work import Background, DelayedKeys
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._rules.interpreter import InterpretError, InterpretLater
from services._rules.interpreter.configuration import Target
from services._rules.interpreter.result_cache import Answers, CachedInterpreter, InterpretationQuery

K = TypeVar("K", bound=Hashable)
Mark = Callable[[Iterable[K]], None]

log = structlog.get_logger("asking")

_AT_ONCE: Final = 32
BACKOFF: Final = Backoff(1.0, 60.0, (0.5, 1.0))


class InterpretationRequest(Struct, frozen=True):
    """A decision waits for answers about an object."""

    key: Any
    questions: Sequence[InterpretationQuery]


class AsyncInterpretation(Generic[K]):
    """Answers for the decisions of one service; `mark` has a key decided again."""

    def __init__(self, mark: Mark[K], interpreters: Interpreters | None = None, backoff: Backoff = BACKOFF) -> None:
        self.interpreters = interpreters or Interpreters()
        self._mark = mark
        self._answers = Answers()
        self.interpreter = CachedInterpreter(self.interpreters.customized, self._answers)
        """What decisions ask."""
        # A webhook that hangs concerns its kind alone.
        self._work: dict[Target, Background[K]] = {}
        self._delayed: DelayedKeys[K] = DelayedKeys(self._expire, backoff)
        self._standing: dict[K, list[InterpretationQuery]] = {}
        self._counts: Counter[str] = Counter()
        self._trouble = ""

    def offer(self, health: Health, reads: ReadCollector) -> None:
        """Show what waits for answers and what they were; not ready while no process for scripts can be started."""
        health.check("interpreters", lambda: self._trouble)
        reads.gauge("interpreter_pending", "Objects that wait for answers of interpreters", lambda: self.pending)
        for result in ("answered", "failed", "later"):
            count = partial(self._counts.__getitem__, result)
            reads.counter("interpreter_answers", "Answers of interpreters", count, result=result)

    @property
    def pending(self) -> int:
        """Keys whose answers are on their way."""
        return sum(work.pending for work in self._work.values())

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact about a policy; the kinds that are interpreted in another way from now on."""
        touched = self.interpreters.take(event)
        self._answers.changed(touched)
        return touched

    def submit(self, ask: InterpretationRequest) -> None:
        """Ask, and have the key decided again when everything is answered."""
        obj = ask.questions[0].arguments[0]
        kind = (str(obj.get("apiVersion")), str(obj.get("kind")))
        work = self._work.get(kind)
        if work is None:
            # Nothing else answers instead of a process that cannot be started.
            work = self._work[kind] = Background(concurrency=_AT_ONCE, retry=(WorkerUnavailable,))
        work.submit(ask.key, partial(self._answer, ask.key, ask.questions))

    async def _answer(self, key: K, questions: Sequence[InterpretationQuery]) -> None:
        open_ones = {question.id: question for question in questions if question not in self._answers}.values()
        results = await asyncio.gather(*(self._one(question) for question in open_ones), return_exceptions=True)
        later: list[InterpretationQuery] = []
        failure: BaseException | None = None
        for question, result in zip(open_ones, results, strict=True):
            if isinstance(result, InterpretLater):
                later.append(question)
            if isinstance(result, BaseException) and not isinstance(result, InterpretError):
                failure = result
            else:
                self._answers.put(question, result)
                failed = "failed" if isinstance(result, InterpretError) else "answered"
                self._counts["later" if isinstance(result, InterpretLater) else failed] += 1
        self._trouble = str(failure) if isinstance(failure, WorkerUnavailable) else ""
        if failure is not None:
            raise failure
        if later:
            self._again(key, later)
        else:
            self._delayed.forget(key)
        self._mark((key,))

    async def _one(self, question: InterpretationQuery) -> object:
        try:
            return await self.interpreters.interpret(question.operation, *question.arguments)
        except (InterpretError, WorkerUnavailable):
            raise
        except Exception as error:
            log.exception("question_failed", operation=question.operation)
            raise InterpretLater(f"{type(error).__name__}: {error}") from error

    def _again(self, key: K, questions: Sequence[InterpretationQuery]) -> None:
        """Keep the failed answers for a backoff period: users are shown them meanwhile."""
        pause = self._delayed.failed(key)
        self._delayed.cancel(key)
        self._standing[key] = [*self._standing.get(key, ()), *questions]
        self._delayed.after(key, pause)

    def _expire(self, key: K) -> None:
        for question in self._standing.pop(key, ()):
            self._answers.drop(question)
        self._mark((key,))

    async def pause(self) -> None:
        """Drop what is on its way: another instance asks now."""
        self._delayed.clear()
        for questions in self._standing.values():
            for question in questions:
                self._answers.drop(question)
        self._standing.clear()
        self._trouble = ""
        works, self._work = self._work, {}
        await asyncio.gather(*(work.close() for work in works.values()))

    async def close(self) -> None:
        """Stop asking and end the processes for scripts."""
        await self.pause()
        await self.interpreters.close()

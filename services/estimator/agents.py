"""Queries the agents of pull members through the registrar: one query per member in flight, further ones batched."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from schemas.agent import RoomAnswers, RoomQuestions
from schemas.keys import ObjectKey
from schemas.subjects import escape
from schemas.topology import FACTS
from services._kit.base.log_errors import LogError, Unavailable
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end
from services._kit.runtime.service import Context
from services.estimator.remote import MemberAnswers, Remote
from services.estimator.settings import EstimatorSettings
from services.estimator.state import EstimatorState

log = structlog.get_logger("estimator.agents")


class Agents:
    """The way to all agents; made when this instance begins to lead, closed when it ends."""

    def __init__(
        self, context: Context[EstimatorState, ObjectKey], members: MemberAnswers, settings: EstimatorSettings
    ) -> None:
        self._context = context
        self._members = members
        self._settings = settings
        self._state = context.projection.state
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._scheduled = False

    def ask(self) -> None:
        """Send what decisions want to know, once the slice of decisions under way is over."""
        if not self._scheduled and any(remote.wanted for remote in self._members.agents.values()):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    async def close(self) -> None:
        """Stop asking."""
        await end(*self._tasks)

    async def put(self, cluster: str, question: RoomQuestions) -> RoomAnswers:
        """The answer of a cluster's agent; raises LogError where none came in time."""
        connection = self._context.connection
        if connection is None:
            raise Unavailable("there is no connection to the registrar")
        subject, body = f"rooms.{escape(cluster)}", msgspec.json.encode(question)
        message = await connection.request(subject, body, timeout=self._settings.agent_answer_timeout)
        try:
            answers = msgspec.json.decode(message.data, type=RoomAnswers)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the registrar's answer cannot be read: {error}") from None
        if answers.problem:
            raise Unavailable(answers.problem)
        return answers

    def number(self) -> int:
        """A number for a question."""
        self._number += 1
        return self._number

    def _send(self) -> None:
        self._scheduled = False
        state, position = self._state, self._context.projection.position[FACTS.name]
        for cluster, remote in self._members.agents.items():
            digests = remote.next_digests()
            if not digests:
                continue
            question = remote.take_question(digests, state.ledger.taken(cluster), self.number(), self._quotas)
            task = spawn(f"exchange:{cluster}", self._exchange(cluster, remote, digests, question, position))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def _quotas(self) -> bool:
        return self._settings.estimate_quotas

    async def _exchange(
        self, cluster: str, remote: Remote, digests: list[str], question: RoomQuestions, position: int
    ) -> None:
        replicas: tuple[int, ...] | None = None
        try:
            answers = await self.put(cluster, question)
            if len(answers.replicas) == len(digests):
                replicas = answers.replicas
        except LogError as error:
            self._complain(cluster, remote, error)
        except Exception:
            # Without an answer the question would count as under way for ever.
            log.exception("exchange_failed", cluster=cluster)
        back = remote.silent and replicas is not None
        concerned: set[Any] = remote.answered(digests, replicas, position, self._context.clock.now())
        self._context.mark([*concerned, *(self._state.unplaced if back else ())])
        self.ask()

    def _complain(self, cluster: str, remote: Remote, error: Exception) -> None:
        if not remote.silent:
            log.warning("agent_silent", cluster=cluster, reason=str(error))

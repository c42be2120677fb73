"""Answers queries about members: how many pods of a workload are unschedulable for longer than a threshold.

`unschedulable.<cluster>` over NATS, with the body {"workload": {kind, namespace, name}, "threshold": seconds}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from nats.aio.msg import Msg

from schemas.agent import RoomAnswers, RoomQuestions
from schemas.keys import ObjectKey
from schemas.subjects import SubjectError, unescape
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end
from services._kit.kube.client import ApiError, Unreachable
from services._kit.members.node_informer import MemberView
from services._kit.members.unschedulable import NotCounted, unschedulable_replicas
from services._kit.runtime.service import Context
from services.estimator.agents import Agents
from services.estimator.remote import MemberAnswers
from services.estimator.state import EstimatorState


class Queries:
    """Answers such queries while this instance leads."""

    def __init__(
        self,
        context: Context[EstimatorState, ObjectKey],
        members: MemberAnswers,
        agents: Agents,
        views: Callable[[], Mapping[str, MemberView]],
    ) -> None:
        self._context = context
        self._members = members
        self._agents = agents
        self._views = views
        self._subscription: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        if self._context.connection is not None:
            self._subscription = await self._context.connection.subscribe("unschedulable.*", self._take)

    async def close(self) -> None:
        """Stop listening."""
        connection = self._context.connection
        if self._subscription is not None and connection is not None and not connection.nc.is_closed:
            await self._subscription.unsubscribe()
        await end(*self._tasks)

    async def _take(self, message: Msg) -> None:
        """One request; a member that takes its time holds up no other."""
        task = spawn("query", self._work_on(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_on(self, message: Msg) -> None:
        connection = self._context.connection
        if connection is None or not message.reply:
            return
        try:
            cluster = unescape(message.subject.partition(".")[2])
            question = msgspec.json.decode(message.data, type=_Query)
            answer = await self.unschedulable(cluster, question.workload, question.threshold)
        except (SubjectError, msgspec.MsgspecError) as error:
            answer = RoomAnswers(id="", problem=f"the request cannot be read: {error}")
        await connection.publish(message.reply, msgspec.json.encode(answer))

    async def unschedulable(self, cluster: str, workload: dict[str, str], threshold: float) -> RoomAnswers:
        """How many pods of a Deployment in a cluster are unschedulable for longer than `threshold` seconds.

        Where that is unknown, the answer has a problem and no count.
        """
        number = str(self._agents.number())
        view, answers = self._views().get(cluster), self._members.nodes.get(cluster)
        try:
            if view is not None and view.client is not None and answers is not None and answers.picture.complete:
                now, waiting = self._context.clock.now(), answers.picture.waiting
                count = await unschedulable_replicas(view.client, waiting, workload, threshold, now)
                return RoomAnswers(id=number, replicas=(count,))
            if cluster in self._members.agents:
                question = RoomQuestions(id=number, workload=workload, threshold=threshold)
                return await self._agents.put(cluster, question)
        except (NotCounted, ApiError, Unreachable, LogError) as error:
            return RoomAnswers(id=number, problem=str(error))
        return RoomAnswers(id=number, problem=f"nothing is known of the nodes and pods of cluster {cluster}")


class _Query(msgspec.Struct, frozen=True):
    workload: dict[str, str]
    threshold: float = 300.0

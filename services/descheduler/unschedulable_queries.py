"""Asks the estimator how many replicas of a Deployment have found no node in some clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from schemas.agent import RoomAnswers
from schemas.keys import ObjectKey
from schemas.subjects import escape
from services._kit.base.log_errors import LogError
from services._kit.log.connection import Connection


class NoAnswer(Exception):
    """The estimator does not answer for every cluster; the message names the cluster and the reason."""


class Asker(Protocol):
    """Who knows which replicas have found no node."""

    async def unschedulable(self, key: ObjectKey, clusters: Sequence[str], threshold: float) -> dict[str, int]:
        """Replicas by cluster that have been without a node for more than `threshold` seconds; raises NoAnswer."""


class Estimators:
    """Puts the question to the leading estimator, for all clusters at once; `timeout` in seconds is for all of them."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout

    async def unschedulable(self, key: ObjectKey, clusters: Sequence[str], threshold: float) -> dict[str, int]:
        """Replicas by cluster that have been without a node for more than `threshold` seconds.

        A cluster that has no opinion is left out. Raises NoAnswer when one cluster cannot be asked: then nothing is
        known for sure of the others either (reference 02 §6).
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

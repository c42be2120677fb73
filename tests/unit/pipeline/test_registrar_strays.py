"""What a replaced registrar said behind its successor is followed by what the successor had said."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import decode, encode, subject_of
from schemas.envelope import HEADER_PRODUCER
from schemas.events.observed import WorkObserved
from schemas.topology import OBSERVED
from services._kit.log.stream_port import Message, NewMessage
from services._kit.runtime.appender import Appender
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings
from services.registrar.state import Member, RegistrarState
from tests.support.facts import KEY
from tests.support.memory_log import MemoryLog

OURS, THEIRS = "registrar/r-1", "registrar/r-0"


def report(at: float, prev: int, cluster: str = "pulls") -> WorkObserved:
    return WorkObserved(cluster=cluster, key=KEY, uid="u1", work_seq=1, applied=True, at=at, prev=prev)


class Desk:
    """The registrar that leads, its log, and what it folded of it."""

    def __init__(self) -> None:
        self.log, self.state = MemoryLog(OBSERVED), RegistrarState()
        self.registrar = Registrar(RegistrarSettings())
        for cluster, mode in (("pulls", "Pull"), ("pushes", "Push")):
            self.state.members[cluster] = Member("uid", mode, ())
        inside: Any = self.registrar
        appender: Appender[str] = Appender(
            {"OBSERVED": self.log},
            "registrar",
            instance="r-1",
            last_seq_of=self.state.last_seq,
        )
        inside._context = SimpleNamespace(logs={"OBSERVED": self.log}, appender=appender)
        inside._subscriptions = [object()]

    async def says(self, event: WorkObserved, by: str) -> None:
        stored = await self.log.append([NewMessage(subject_of(event), encode(event), {HEADER_PRODUCER: by})])
        message = await self.log.get(stored.last)
        assert message is not None
        self.registrar.fold(self.state, message, event)
        inside: Any = self.registrar
        await asyncio.gather(*inside._background)

    async def last(self, cluster: str = "pulls") -> WorkObserved:
        message: Message | None = await self.log.last(subject_of(report(0.0, 0, cluster)))
        assert message is not None
        event = decode(message.subject, message.data)
        assert isinstance(event, WorkObserved)
        return event


async def test_last_report_is_repeated_behind_a_stray() -> None:
    desk = Desk()
    await desk.says(report(1.0, 0), THEIRS)
    await desk.says(report(2.0, 1), OURS)
    await desk.says(report(1.5, 1), THEIRS)
    assert await desk.last() == replace(report(2.0, 3), provenance=(await desk.last()).provenance)


@pytest.mark.parametrize(
    ("by", "cluster", "prev"), [(THEIRS, "pulls", 2), (OURS, "pulls", 1), ("executor/e-0", "pushes", 1)]
)
async def test_ordered_own_and_push_reports_are_not_repeated(by: str, cluster: str, prev: int) -> None:
    desk = Desk()
    await desk.says(report(1.0, 0, cluster), by)
    await desk.says(report(2.0, 1, cluster), by)
    await desk.says(report(3.0, prev, cluster), by)
    assert (await desk.last(cluster)).at == 3.0


async def test_follower_repeats_nothing() -> None:
    desk = Desk()
    inside: Any = desk.registrar
    inside._subscriptions = []
    await desk.says(report(1.0, 0), THEIRS)
    await desk.says(report(2.0, 1), OURS)
    await desk.says(report(1.5, 1), THEIRS)
    assert (await desk.last()).at == 1.5

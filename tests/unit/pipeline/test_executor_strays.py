"""What a replaced executor still says is looked into by the present one, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schemas.codec import encode, subject_of
from schemas.envelope import HEADER_PRODUCER
from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from schemas.shard_groups import WHOLE
from services._kit.log.stream_port import Message
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from tests.support.facts import KEY


class Lane:
    """Remembers what it was asked to look at."""

    def __init__(self) -> None:
        self.asked: list[ObjectKey] = []

    def look_at(self, key: ObjectKey) -> None:
        self.asked.append(key)


def told(by: str, cluster: str = "m1") -> tuple[Message, WorkObserved]:
    event = WorkObserved(cluster=cluster, key=KEY, uid="u1", work_seq=1, applied=True, at=1.0)
    return Message(subject_of(event), 9, 2.0, {HEADER_PRODUCER: by}, encode(event)), event


@pytest.fixture
def executor() -> tuple[Executor, Lane]:
    made, lane = Executor(ExecutorSettings(control_kubeconfig="none")), Lane()
    inside: Any = made
    inside._context = SimpleNamespace(appender=SimpleNamespace(producer="executor/e-1"), group=WHOLE)
    inside._reports = SimpleNamespace(folded=lambda event: None)
    inside._lanes = {"m1": (None, lane)}
    inside._acting = True
    return made, lane


def test_report_of_another_instance_is_checked(executor: tuple[Executor, Lane]) -> None:
    made, lane = executor
    made.fold(made.new_state(), *told("executor/e-0"))
    assert lane.asked == [KEY]


@pytest.mark.parametrize(("by", "cluster"), [("executor/e-1", "m1"), ("registrar/r-0", "pulls")])
def test_own_reports_and_pull_members_are_not_checked(executor: tuple[Executor, Lane], by: str, cluster: str) -> None:
    made, lane = executor
    made.fold(made.new_state(), *told(by, cluster))
    assert lane.asked == []


def test_follower_checks_nothing(executor: tuple[Executor, Lane]) -> None:
    made, lane = executor
    made._acting = False
    made.fold(made.new_state(), *told("executor/e-0"))
    assert lane.asked == []

"""What a cluster held when it was removed is left alone when it joins again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schemas.codec import Known, subject_of
from schemas.events.cluster import ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.hints import Purged
from schemas.shard_groups import WHOLE
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.executor.state import ExecutorState, fold
from tests.support.facts import KEY, cluster, seen, withdrawn, work

RENDERED, WITHDRAWN = work("m1"), withdrawn("m1")
SEEN = seen("m1", work_seq=2, at=1.0)
REMOVED = ClusterRemoved(name="m1", uid="c1")


class Inside:
    """An executor that leads, its state, and what it reports."""

    def __init__(self) -> None:
        self.state = ExecutorState()
        self.said: list[WorkObserved] = []
        self._seq = 0
        self.executor: Any = Executor(ExecutorSettings(control_kubeconfig="none"))
        self.executor._context = SimpleNamespace(
            group=WHOLE,
            projection=SimpleNamespace(state=self.state),
            clock=SimpleNamespace(now=lambda: 5.0),
            restoration=None,
        )
        self.executor._reports = SimpleNamespace(
            report=self.said.append, latest=lambda *_: self.said[-1] if self.said else None, start=lambda: None
        )
        self.executor._open = lambda cluster: None

    def take(self, *events: Known) -> None:
        for event in events:
            self._seq += 1
            self.executor.on_dirty(fold(self.state, self._seq, subject_of(event), event))


@pytest.fixture
def inside() -> Inside:
    made = Inside()
    made.executor._acting = True
    return made


def unfinished(inside: Inside) -> list[Any]:
    for said in inside.said:
        fold(inside.state, 9, subject_of(said), said)
    return inside.state.of("m1").unfinished()


def test_withdrawal_before_a_removal_counts_as_carried_out(inside: Inside) -> None:
    inside.take(cluster("m1"), RENDERED, SEEN, WITHDRAWN)
    assert inside.said == []
    inside.take(REMOVED)
    assert inside.said == [WorkObserved(cluster="m1", key=KEY, uid="u1", work_seq=4, absent=True, at=5.0)]
    inside.take(cluster("m1"))
    assert unfinished(inside) == []


def test_withdrawal_after_a_removal_is_reported_once(inside: Inside) -> None:
    inside.take(cluster("m1"), RENDERED, SEEN, REMOVED)
    assert inside.said == []
    inside.take(WITHDRAWN, REMOVED)
    assert [said.work_seq for said in inside.said] == [5]
    inside.take(cluster("m1"))
    assert unfinished(inside) == []


async def test_new_leader_reports_works_of_a_removed_cluster(inside: Inside) -> None:
    inside.executor._acting = False
    inside.take(cluster("m1"), RENDERED, SEEN, WITHDRAWN, REMOVED)
    assert inside.said == []
    await inside.executor.on_leading()
    assert [said.absent for said in inside.said] == [True]


def test_rejoined_cluster_carries_out_withdrawals(inside: Inside) -> None:
    inside.take(cluster("m1"), RENDERED, SEEN, WITHDRAWN, REMOVED, cluster("m1"))
    assert unfinished(inside) == []
    inside.take(RENDERED, WITHDRAWN)
    assert unfinished(inside) == [KEY]
    assert len(inside.said) == 1


def test_purged_cluster_is_forgotten(inside: Inside) -> None:
    inside.take(cluster("m1"), REMOVED)
    assert inside.state.removed == {"m1"}
    inside.state.forget(Purged(objects=(), clusters=("m1",)))
    assert inside.state.removed == set()

"""How often statuses are summed: at once where all reported, seldom where they change all the time or are large."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.observed import WorkObserved
from schemas.events.rollup import StatusRolledUp
from schemas.keys import ObjectKey
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.decide import RollupPace, affordable_at, decide, due_at
from services.status_aggregator.settings import AggregatorSettings
from services.status_aggregator.state import AggregatorState
from tests.support.facts import (
    KEY,
    raw,
    seen,
)
from tests.support.harness import aggregator_of

PACE = RollupPace(gather=0.01, settle=0.1, interval=0.02, patience=1.0)


def fresh(name: str, at: float, observed: int) -> WorkObserved:
    status = raw({"generation": 1, "observedGeneration": observed})
    return seen(name, status=status, at=at)


def reported(name: str, **status: Any) -> WorkObserved:
    return seen(name, status=raw(status))


def test_rollup_is_due_once_every_cluster_reported() -> None:
    aggregator = aggregator_of()
    aggregator.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.05, 1))
    assert due_at(aggregator.state.objects[KEY], 1000.05, PACE) <= 1000.05


def test_rollup_waits_for_a_cluster_about_to_report() -> None:
    aggregator = aggregator_of()
    aggregator.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.0, 0))
    assert due_at(aggregator.state.objects[KEY], 1000.0, PACE) == 1000.0 + PACE.settle
    aggregator.given(fresh("m2", 1000.02, 1))
    assert due_at(aggregator.state.objects[KEY], 1000.02, PACE) <= 1000.02


def test_rollup_does_not_wait_for_a_failed_copy() -> None:
    aggregator = aggregator_of()
    aggregator.given(fresh("m1", 1000.0, 1), seen("m2", applied=False, message="quota exceeded", at=1000.0))
    assert due_at(aggregator.state.objects[KEY], 1000.0, PACE) <= 1000.0


def test_later_report_waits_for_others_of_its_burst() -> None:
    aggregator = aggregator_of()
    aggregator.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.0, 1))
    assert aggregator.decides() is not None
    aggregator.given(fresh("m1", 1000.5, 1))
    assert due_at(aggregator.state.objects[KEY], 1000.5, PACE) == 1000.5 + PACE.gather


def test_many_rollups_lengthen_the_pace() -> None:
    inside: Any = StatusAggregator(AggregatorSettings(control_kubeconfig="none"))
    assert inside._patience(10.0) == 1.0
    inside._summed.extend([10.0] * 30)
    assert inside._patience(10.5) == 10.0
    assert inside._patience(11.5) == 1.0, "the rush is over"


def test_rollup_that_is_not_due_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[object] = []

    def counted(state: AggregatorState, key: ObjectKey) -> StatusRolledUp | None:
        worked_out.append(key)
        return decide(state, key)

    monkeypatch.setattr("services.status_aggregator.app.decide", counted)
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", rollup_gather=1.0, rollup_settle=1.0))
    aggregator = aggregator_of()
    aggregator.given(seen("m1", at=100.0), seen("m2", at=100.0))
    first = service.decide(aggregator.state, KEY, 100.0)
    assert len(first.events) == 1, "both have spoken"
    aggregator.given(*(replace(event, provenance=Provenance(decided_at=100.0)) for event in first.events))
    worked_out.clear()
    aggregator.given(seen("m1", replicas=2, at=100.1))
    waiting = service.decide(aggregator.state, KEY, 100.2)
    assert (waiting.wake_at, waiting.events, waiting.effects) == (101.1, (), ())
    assert worked_out == []
    due = service.decide(aggregator.state, KEY, 101.2)
    assert len(due.events) == 1
    assert worked_out == [KEY]


def sums_in(seconds: float, size: int, every: float) -> list[float]:
    """When sums are said of an object whose member reports another status of this size all the time."""
    aggregator, pace, now, said = aggregator_of(), RollupPace(0.03, 0.02, 1.0, 0.06), 1000.0, []
    while now < 1000.0 + seconds:
        aggregator.given(reported("m1", text="x" * size, now=now), seen("m2", at=now))
        known = aggregator.state.objects[KEY]
        if now >= due_at(known, now, pace):
            aggregator.now = now
            assert aggregator.decides() is not None
            said.append(now)
        now += every
    return said


def test_lasting_change_is_summed_once_per_second() -> None:
    said = sums_in(60.0, 100, every=0.05)
    assert said[9] - said[0] < 1.0
    assert 60 <= len(said) <= 75
    assert all(0.9 < after - before < 1.2 for before, after in pairwise(said[20:]))


def test_large_changing_status_is_summed_seldom() -> None:
    said = sums_in(150.0, 900_000, every=0.25)
    assert len(said) * 900_000 / 150 < 140_000, "bytes per second"
    assert all(after - before < 7.5 for before, after in pairwise(said))
    quiet = aggregator_of()
    quiet.given(reported("m1", text="x" * 900_000), seen("m2"))
    assert quiet.decides() is not None
    assert affordable_at(quiet.state.objects[KEY], 10.0) <= 10.0


def test_debt_of_large_statuses_ends_after_one_wait() -> None:
    aggregator, now = aggregator_of(), 1000.0

    def says(size: int) -> None:
        aggregator.given(reported("m1", text="x" * size, now=now), seen("m2", at=now))
        aggregator.now = now
        assert aggregator.decides() is not None

    for more in range(10):
        says(900_000 + more)
    assert affordable_at(aggregator.state.objects[KEY], now) == now + 7.0
    now += 7.0
    says(10)
    assert affordable_at(aggregator.state.objects[KEY], now) < now + 1.1


def test_future_timestamp_delays_no_rollup() -> None:
    aggregator = aggregator_of()
    for number in range(30):
        aggregator.given(reported("m1", replicas=number % 2), seen("m2"))
        aggregator.now = 5000.0
        assert aggregator.decides() is not None
    known = aggregator.state.objects[KEY]
    assert affordable_at(known, 5000.0) > 5000.0
    assert affordable_at(known, 1400.0) == 0.0

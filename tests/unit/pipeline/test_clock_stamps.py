"""Stamps on the log that lie ahead, because a clock was set back since, make nobody wait until they have passed."""

from __future__ import annotations

import pytest

from schemas.envelope import Provenance
from schemas.events.observed import WorkObserved
from schemas.events.rollup import StatusRolledUp
from schemas.keys import ObjectKey
from services.failover.eviction_rate import EvictionRate as EvictionPace
from services.status_aggregator.decide import RollupPace, due_at
from services.status_aggregator.state import Copy, Reported

NOW = 1_700_000_000.0
KEY = ObjectKey("apps", "deployments", "n", "app")
HOUR = 3600.0
PACE = RollupPace(gather=0.2, interval=1.0, patience=2.0)


def work(at: float) -> Copy:
    return Copy(uid="u", seq=1, at=at, wanted=True)


def spoke(cluster: str, at: float) -> tuple[WorkObserved, int]:
    return WorkObserved(cluster=cluster, key=KEY, uid="u", at=at), 20


def rollup(at: float) -> StatusRolledUp:
    return StatusRolledUp(key=KEY, uid="u", observed_position=10, provenance=Provenance(decided_at=at))


@pytest.mark.parametrize("ahead", [HOUR, 10.0])
def test_rollup_is_not_delayed_by_an_earlier_one_ahead(ahead: float) -> None:
    works = {name: work(NOW) for name in ("a", "b")}
    reported = Reported(works=dict(works), observed={"a": spoke("a", NOW - 1)}, rollup=rollup(NOW + ahead))
    assert due_at(reported, NOW, PACE) <= NOW


def test_rollup_is_not_delayed_by_a_member_clock_ahead() -> None:
    works = {name: work(NOW) for name in ("a", "b")}
    reported = Reported(works=dict(works), observed={"a": spoke("a", NOW + HOUR)}, rollup=rollup(NOW - 5))
    assert due_at(reported, NOW, PACE) <= NOW


def test_first_rollup_is_not_delayed_by_works_ahead() -> None:
    assert due_at(Reported(works={"a": work(NOW + HOUR)}), NOW, PACE) <= NOW


def test_timestamps_slightly_ahead_still_pace_rollups() -> None:
    reported = Reported(
        works={name: work(NOW) for name in ("a", "b")},
        observed={"a": spoke("a", NOW + 0.05)},
        rollup=rollup(NOW + 0.05),
    )
    assert NOW < due_at(reported, NOW, PACE) <= NOW + 2 * PACE.interval
    assert due_at(Reported(works={"a": work(NOW + 0.05)}), NOW, PACE) > NOW


def test_eviction_waits_no_longer_than_its_turn() -> None:
    pace = EvictionPace(0.5)
    assert pace.turn(KEY, NOW, NOW + HOUR) == NOW + 2.0
    assert pace.turn(KEY, NOW + 2.0, NOW + HOUR) == NOW + 2.0

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
HOUR = 3600.0
KEY = ObjectKey("apps", "deployments", "n", "app")
PACE = RollupPace(gather=0.2, interval=1.0, patience=2.0)


def work(at: float) -> Copy:
    return Copy(uid="u", seq=1, at=at, wanted=True)


def spoke(cluster: str, at: float) -> tuple[WorkObserved, int]:
    return WorkObserved(cluster=cluster, key=KEY, uid="u", at=at), 20


def rollup(at: float) -> StatusRolledUp:
    return StatusRolledUp(key=KEY, uid="u", observed_position=10, provenance=Provenance(decided_at=at))


@pytest.mark.parametrize("ahead", [HOUR, 10.0])
def test_a_sum_is_not_put_off_by_one_that_was_said_an_hour_ahead(ahead: float) -> None:
    works = {name: work(NOW) for name in ("a", "b")}
    reported = Reported(works=dict(works), observed={"a": spoke("a", NOW - 1)}, rollup=rollup(NOW + ahead))
    assert due_at(reported, NOW, PACE) <= NOW


def test_a_sum_is_not_put_off_by_a_member_whose_clock_is_ahead() -> None:
    works = {name: work(NOW) for name in ("a", "b")}
    reported = Reported(works=dict(works), observed={"a": spoke("a", NOW + HOUR)}, rollup=rollup(NOW - 5))
    assert due_at(reported, NOW, PACE) <= NOW


def test_a_first_sum_is_not_put_off_by_works_rendered_an_hour_ahead() -> None:
    assert due_at(Reported(works={"a": work(NOW + HOUR)}), NOW, PACE) <= NOW


def test_stamps_a_moment_ahead_still_pace_the_sums() -> None:
    reported = Reported(
        works={name: work(NOW) for name in ("a", "b")},
        observed={"a": spoke("a", NOW + 0.05)},
        rollup=rollup(NOW + 0.05),
    )
    assert NOW < due_at(reported, NOW, PACE) <= NOW + 2 * PACE.interval
    assert due_at(Reported(works={"a": work(NOW + 0.05)}), NOW, PACE) > NOW


def test_an_eviction_waits_for_its_turn_and_no_hour_longer() -> None:
    pace = EvictionPace(0.5)
    assert pace.turn(KEY, NOW, NOW + HOUR) == NOW + 2.0
    assert pace.turn(KEY, NOW + 2.0, NOW + HOUR) == NOW + 2.0

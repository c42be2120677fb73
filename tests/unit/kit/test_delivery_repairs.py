"""An object that is changed back again and again is repaired ever more seldom, until it was quiet for a while."""

from __future__ import annotations

from services._kit.delivery.lane_parts import RepairBackoff
from tests.support.facts import KEY


def test_undone_repairs_back_off_until_it_is_quiet() -> None:
    repairs, now = RepairBackoff(30.0), 100.0
    waits = []
    for _ in range(10):
        wait = repairs.wait(KEY, now)
        waits.append(wait)
        now += wait
        repairs.repaired(KEY, now)
    assert waits == [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]
    now += 200
    assert repairs.wait(KEY, now) == 0
    repairs.repaired(KEY, now)
    assert repairs.wait(KEY, now) == 0


def test_clock_step_delays_no_repair_beyond_the_bound() -> None:
    repairs = RepairBackoff(30.0)
    for _ in range(9):
        repairs.repaired(KEY, 1000.0)
    assert repairs.wait(KEY, 0.0) == 30.0

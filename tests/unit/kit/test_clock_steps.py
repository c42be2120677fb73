"""The clock of the runtime does not follow steps of the machine's clock, and agrees with it again in the end."""

from __future__ import annotations

import pytest

from services._kit.base.clock import ADOPTED, PULL, SystemClock

HOUR = 3600.0


class Machine:
    """A machine's clocks: time passes on both, and only the wall clock can be set."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.elapsed = 50.0
        self.clock = SystemClock(lambda: self.wall, lambda: self.elapsed)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_passes_as_on_the_machine(machine: Machine) -> None:
    for _ in range(100):
        machine.passes(0.37)
        assert machine.clock.now() == pytest.approx(machine.wall)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_deadline_is_kept_when_the_clock_is_set(machine: Machine, step: float) -> None:
    deadline = machine.clock.now() + 40.0
    machine.wall += step
    machine.passes(0.01)
    assert machine.clock.now() == pytest.approx(deadline - 40.0, abs=0.1)
    machine.passes(40.0 / (1 + PULL) - 0.1)
    assert machine.clock.now() < deadline
    machine.passes(40.0 / (1 - PULL))
    assert machine.clock.now() > deadline


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_it_never_goes_back_and_agrees_with_the_machine_again(machine: Machine, step: float) -> None:
    machine.wall += step
    last = machine.clock.now()
    for _ in range(int(HOUR / PULL / 60) + 2):
        machine.passes(60.0)
        now = machine.clock.now()
        assert now > last
        last = now
    assert last == pytest.approx(machine.wall)


def test_a_clock_that_was_far_off_is_followed_at_once(machine: Machine) -> None:
    machine.wall += ADOPTED + 1
    assert machine.clock.now() == machine.wall
    machine.wall -= 2 * ADOPTED
    assert machine.clock.now() == machine.wall

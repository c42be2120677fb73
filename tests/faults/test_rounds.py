"""Three fault rounds on one installation; `just faults` plays more of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.up import SERVICES
from tests.e2e.fleet import Fleet
from tests.faults.run import play, row

ROUNDS = 3
DEPLOYMENTS = 60


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A started installation."""
    made = Fleet(tmp_path_factory.mktemp("faults")).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def seed() -> int:
    """Drawn at random; a failure tells it."""
    return secrets.randbelow(10**6)


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_kills_under_load_leave_what_the_policies_say(fleet: Fleet, seed: int, number: int) -> None:
    result = play(fleet, number, seed, DEPLOYMENTS, (*SERVICES, "agent-member3"))
    found = "\n".join([row(result), *result.complaints[:20]])
    again = f"python -m tests.faults.run --rounds {number} --seed {seed} --deployments {DEPLOYMENTS}"
    assert result.ok, f"repeat with: {again}\n{found}\nlogs in {Path(fleet.layout.directory) / 'logs'}"

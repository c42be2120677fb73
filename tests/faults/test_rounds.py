"""A round of some faults on one installation; `just faults` plays all of them, and more often."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.faults.catalog import BY_NAME, STANDARD
from tests.faults.ground import Ground
from tests.faults.lanes import play, standing
from tests.faults.run import again, row

ROUNDS = (
    ("kill-after-act", 1),
    ("member-500", 1),
    *(
        pytest.param(*played, marks=pytest.mark.long)
        for played in (*((STANDARD, number) for number in (1, 2, 3)), ("kill-before-append", 1), ("template-again", 1))
    ),
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A started installation."""
    with standing(Ground, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="module")
def seed() -> int:
    """Drawn at random; a failure tells it."""
    return secrets.randbelow(10**6)


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "number"), ROUNDS)
def test_after_a_fault_everything_is_as_the_policies_say(ground: Ground, seed: int, name: str, number: int) -> None:
    outcome = play(ground, BY_NAME[name], number, seed)
    found = "\n".join([row(outcome), *outcome.complaints[:20]])
    assert outcome.ok, f"repeat with: {again(outcome)}\n{found}\nlogs in {ground.fleet.layout.directory / 'logs'}"

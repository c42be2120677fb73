"""Short rounds of neighbours that answer wrongly; `just faults` plays all of them, and for longer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.faults.catalog import BY_NAME
from tests.faults.hostile.swapped import Swappable
from tests.faults.lanes import play, standing
from tests.faults.run import again, row

ROUNDS = (
    "swapped-control-plane-same-members",
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("credentials-broken", "garbled-control-html-line", "garbled-control-maintenance")
    ),
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swappable]:
    """A started installation behind fronts, and another control plane."""
    with standing(Swappable, tmp_path_factory.mktemp("hostile")) as made:
        assert isinstance(made, Swappable)
        yield made


@pytest.fixture(scope="module")
def seed() -> int:
    """Drawn at random; a failure tells it."""
    return secrets.randbelow(10**6)


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ROUNDS)
def test_a_neighbour_that_answers_wrongly_harms_nothing(ground: Swappable, seed: int, name: str) -> None:
    outcome = play(ground, BY_NAME[name], 1, seed)
    found = "\n".join([row(outcome), *outcome.complaints[:20]])
    assert outcome.ok, f"repeat with: {again(outcome)}\n{found}\nlogs in {ground.fleet.layout.directory / 'logs'}"

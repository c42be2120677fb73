"""One short cycle of the chaos run; `just faults --chaos` plays many."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.chaos.machine import standing
from tests.faults.chaos.run import Chaos, Chosen

SEED = 4
"""Half-open streams, an API server and the log killed, garbage of the control plane."""
INVARIANTS = (
    "acknowledged writes",
    "contents",
    "orphans",
    "namespaces",
    "history without gaps",
    "facts in the history",
)


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(300)
def test_everything_holds_after_a_cycle(tmp_path: Path) -> None:
    with standing(tmp_path) as ground:
        chaos = Chaos(ground, Chosen(minutes=0, seed=SEED, directory=tmp_path, cycle=1, seconds=8.0))
        summary = asyncio.run(chaos.run())
    assert chaos.violations == []
    assert summary["writes"]["acknowledged"] > 0
    assert {name for name in INVARIANTS if not summary["checks"].get(name)} == set(), "not looked at"

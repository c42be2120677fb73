"""The clusters whose reports keep a status from being summed are found by few attempts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.status_aggregator.culprits import Fault, NoCulprit, culprits, enough, without

PROBLEM = ValueError("it cannot be summed")


def items(count: int) -> list[dict[str, Any]]:
    return [{"clusterName": f"m{number}", "applied": True, "status": {"ready": number}} for number in range(count)]


class Sum:
    """Fails while any of some clusters takes part, and for none at all where `nothing` cannot be summed."""

    def __init__(self, count: int, *bad: str, nothing: bool = True) -> None:
        self.names = {item["clusterName"] for item in items(count)}
        self.bad = set(bad)
        self.nothing = nothing
        self.attempts = 0

    async def __call__(self, out: Collection[str]) -> Exception | None:
        self.attempts += 1
        taking_part = self.names - set(out)
        if not taking_part:
            return None if self.nothing else PROBLEM
        wrong = sorted(taking_part & self.bad)
        return ValueError(f"{wrong[0]} is wrong") if wrong else None


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
async def test_up_to_three_culprits_are_found_with_reasons(count: int, data: st.DataObject) -> None:
    names = [item["clusterName"] for item in items(count)]
    bad = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    attempt = Sum(count, *bad)
    found = await culprits(items(count), PROBLEM, attempt)
    assert set(found) == set(bad)
    assert attempt.attempts <= enough(count)
    # What kept all of them from being summed is the last one's reason, unless a smaller sum failed of it as well.
    assert all(why in {str(PROBLEM), *(f"{name} is wrong" for name in bad)} for why in found.values())


async def test_no_report_is_at_fault_if_the_empty_sum_fails() -> None:
    attempt = Sum(100, "m3", nothing=False)
    with pytest.raises(NoCulprit):
        await culprits(items(100), PROBLEM, attempt)
    assert attempt.attempts == 1


async def test_attempts_are_bounded_for_many_culprits() -> None:
    attempt = Sum(1000, *(f"m{number}" for number in range(500)))
    with pytest.raises(NoCulprit):
        await culprits(items(1000), PROBLEM, attempt)
    assert attempt.attempts == enough(1000) < 40


async def test_earlier_culprits_are_tried_first() -> None:
    attempt = Sum(1000, "m7", "m8")
    assert set(await culprits(items(1000), PROBLEM, attempt, ["m7", "m8", "m9"])) == {"m7", "m8"}
    assert attempt.attempts <= 7
    alone = Sum(1000, "m7")
    assert await culprits(items(1000), PROBLEM, alone, ["m7"]) == {"m7": str(PROBLEM)}
    assert alone.attempts == 2, "of nothing, and without it"
    assert set(await culprits(items(1000), PROBLEM, Sum(1000, "m7", "m9"), ["m7"])) == {"m7", "m9"}


def test_report_left_out_leaves_its_cluster_unknown() -> None:
    said = items(2)
    assert without(said, {"m1"}, whole=False) == [
        said[0],
        {"clusterName": "m1", "applied": True, "health": "Unknown"},
    ]
    assert without(said, {"m1"}, whole=True) == said[:1]


def test_changed_report_ends_the_fault() -> None:
    said = items(2)
    fault = Fault({"m1": "wrong"}, {"m1": said[1]}, whole=True)
    assert fault.still(said) == fault
    assert fault.still([said[0], {**said[1], "status": {}}]) is None

"""What one caller, and all together, may have under way: requests, and what runs for long, count by themselves."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from services._kit.proxying.caller_limits import CallerBounds, CallerLimits, TooManyRequests


def test_what_runs_for_long_takes_no_place_of_requests() -> None:
    limits = CallerLimits(CallerBounds(requests=2, lasting=1, altogether=10))
    with ExitStack() as held:
        held.enter_context(limits.request("jane", lasts=True))
        with pytest.raises(TooManyRequests, match="jane has 1 watches"):
            held.enter_context(limits.request("jane", lasts=True))
        held.enter_context(limits.request("jane", lasts=False))
        held.enter_context(limits.request("jane", lasts=False))
        with pytest.raises(TooManyRequests, match="jane has 2 requests"):
            held.enter_context(limits.request("jane", lasts=False))
        held.enter_context(limits.request("tom", lasts=True))
        assert (limits.under_way, limits.lasting) == (4, 2)
    assert (limits.under_way, limits.lasting) == (0, 0)
    with limits.request("jane", lasts=True):
        assert limits.under_way == 1


def test_all_callers_together_are_bounded() -> None:
    limits = CallerLimits(CallerBounds(requests=5, lasting=5, altogether=2))
    with ExitStack() as held:
        held.enter_context(limits.request("jane", lasts=False))
        held.enter_context(limits.request("tom", lasts=True))
        with pytest.raises(TooManyRequests, match="2 requests for members"):
            held.enter_context(limits.request("eve", lasts=False))
    with limits.request("eve", lasts=False):
        assert limits.under_way == 1


def test_a_request_that_fails_is_counted_no_more() -> None:
    limits = CallerLimits(CallerBounds(requests=1, lasting=1, altogether=1))
    with pytest.raises(KeyError), limits.request("jane", lasts=False):
        raise KeyError
    with limits.request("jane", lasts=False):
        assert limits.under_way == 1

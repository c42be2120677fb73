"""Sends wild requests for a while; the first finding ends it, with a seed and a reproduction."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.findings import Raw, Watcher
from tests.fuzz.ground import prepare
from tests.fuzz.wild_requests import requests

_AT_ONCE = 100


def send_wild(watcher: Watcher, seconds: float, first_seed: int, least: int = 0) -> int:
    """Send requests until the time is over, `least` at least; the number of the last seed. Raises Finding."""
    prepare(watcher.server)
    end = time.monotonic() + seconds
    number = first_seed

    def more() -> bool:
        return time.monotonic() < end or watcher.sent < least

    while more():
        _round(watcher, number, more)
        number += 1
    return number


def _round(watcher: Watcher, number: int, more: Callable[[], bool]) -> None:
    @seed(number)
    @settings(
        max_examples=_AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def each(request: Raw) -> None:
        if more():
            watcher.send(request)

    try:
        each()
    except Exception as error:
        error.add_note(f"seed: {number} (just fuzz --only wild --seed {number})")
        raise

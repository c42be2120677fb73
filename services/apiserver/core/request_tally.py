"""Counts requests and their times: as plain numbers, because labels and locks would be a tenth of a small read."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.4, 1, 5)
_NAMES: Final = (*(repr(float(bound)) for bound in _BOUNDS), "+Inf")


class _Times:
    """How many requests of one method took how long; the last bucket has no end."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def cumulative(self) -> Iterator[tuple[str, float]]:
        """Buckets as Prometheus has them: each includes all before it."""
        found = 0
        for name, count in zip(_NAMES, self.buckets, strict=True):
            found += count
            yield name, found


class RequestTally(Collector):
    """Requests answered by method and code, and the time of those that were answered in one piece, by method."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, _Times] = {}

    def answered(self, method: str, code: int) -> None:
        """Count a request whose time says nothing: a watch, or a list that is still being sent."""
        self._answered[method, code] += 1

    def add(self, method: str, code: int, seconds: float) -> None:
        """Count a request that was answered within some seconds."""
        self._answered[method, code] += 1
        times = self._times.get(method)
        if times is None:
            times = self._times[method] = _Times()
        times.buckets[bisect_left(_BOUNDS, seconds)] += 1
        times.total += seconds

    def collect(self) -> Iterable[Metric]:
        """The two metrics."""
        requests = CounterMetricFamily(
            "fleetlog_apiserver_requests_total", "Requests answered.", labels=["method", "code"]
        )
        for (method, code), count in list(self._answered.items()):
            requests.add_metric([method, str(code)], count)
        seconds = HistogramMetricFamily(
            "fleetlog_apiserver_request_seconds", "Time to answer a request, watches left out.", labels=["method"]
        )
        for method, times in list(self._times.items()):
            seconds.add_metric([method], list(times.cumulative()), times.total)
        return requests, seconds


REQUESTS: Final = RequestTally()
REGISTRY.register(REQUESTS)

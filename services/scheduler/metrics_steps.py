"""Times the steps of the algorithm: plain counts, since several are taken per decision (reference 02 §9.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from time import perf_counter
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from services._kit.base.metrics import STAGE_SECONDS

NAME: Final = "karmada_scheduler_scheduling_algorithm_duration_seconds"
STEPS: Final = ("Filter", "Score", "Select", "AssignReplicas")


class StepTimes(Collector):
    """A histogram by step; called with the name of each step as it ends, and with "" as the first one begins."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._since = 0.0
        self._counts = {step: [0] * (len(STAGE_SECONDS) + 1) for step in STEPS}
        self._sums = dict.fromkeys(STEPS, 0.0)

    def __call__(self, step: str) -> None:
        """A step is over, and the next one begins."""
        now = self._clock()
        if step:
            lasted = now - self._since
            self._counts[step][bisect_left(STAGE_SECONDS, lasted)] += 1
            self._sums[step] += lasted
        self._since = now

    def describe(self) -> list[Metric]:
        """Nothing to check at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The histograms as they are now."""
        family = HistogramMetricFamily(NAME, "Time of one step of the algorithm", labels=["schedule_step"])
        bounds = [*(str(bound) for bound in STAGE_SECONDS), "+Inf"]
        for step, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([step], buckets, self._sums[step])
        yield family

"""The catalogue of the status aggregator's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from services._kit.base.metrics import ReadCollector
from services.status_aggregator.state import AggregatorState


def register(reads: ReadCollector, state: AggregatorState, pending: Callable[[], int]) -> None:
    """Offer what is summed; `pending` counts statuses not yet written to their templates."""

    def summed(*, complete: bool) -> int:
        rollups = [reported.rollup for reported in state.objects.values() if reported.rollup is not None]
        return sum(1 for rollup in rollups if not rollup.closed and rollup.fully_applied == complete)

    def uncounted() -> list[tuple[tuple[str, ...], float]]:
        found = Counter(
            item.cluster
            for reported in state.objects.values()
            if reported.rollup is not None
            for item in reported.rollup.items
            if item.problem
        )
        return [((cluster,), float(count)) for cluster, count in found.items()]

    text = "Objects whose report of a cluster does not count"
    reads.table("fleetlog_aggregator_uncounted_reports", text, ("member_cluster",), uncounted)
    reads.gauge("aggregator_objects", "Objects by application", lambda: summed(complete=True), applied="fully")
    reads.gauge("aggregator_objects", "", lambda: summed(complete=False), applied="partly")
    reads.gauge("aggregator_pending_writes", "Statuses not yet written to their templates", pending)

"""Replays the recorded scheduling decisions."""

from collections.abc import Callable
from typing import Any

from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Status


def check_scheduler(case: dict[str, Any]) -> bool:
    """Whether the decision is one of the recorded outcomes."""
    index = ClusterIndex(cluster_view(item) for item in case["clusters"])
    status = case.get("status") or {}
    decision = schedule(
        index,
        binding_view(case["spec"]),
        Status(status.get("schedulerObservingAffinityName", ""), status.get("lastScheduledTime")),
    )
    if decision.error is not None:
        return any(outcome.get("error") == decision.error for outcome in case["outcomes"])
    found = sorted((item.name, item.replicas) for item in decision.clusters)
    return any(
        "error" not in outcome
        and found == sorted((item["name"], item.get("replicas", 0)) for item in outcome.get("clusters") or [])
        for outcome in case["outcomes"]
    )


FILES: dict[str, Callable[[dict[str, Any]], bool]] = {"scheduler": check_scheduler}

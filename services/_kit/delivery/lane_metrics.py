"""Metrics of lanes: their own, and the counts of writes under Karmada's names (reference 04 section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from services._kit.base.metrics import ReadCollector
from services._kit.delivery.kind_caches import Kind
from services._kit.kube.client import ApiError, Unreachable

if TYPE_CHECKING:
    from services._kit.delivery.lane import Lane

_LABELS: Final = ("result", "apiversion", "kind", "member_cluster")


class WriteMetrics:
    """The counts of all lanes of a service; they go on when a lane is reopened."""

    def __init__(self, reads: ReadCollector) -> None:
        self._created = reads.tally(
            "create_resource_to_cluster", "Objects created in members", *_LABELS, "recreate", kind="unknown"
        )
        self._updated = reads.tally(
            "update_resource_to_cluster", "Objects updated in members", *_LABELS, "operationResult", kind="unknown"
        )
        self._deleted = reads.tally(
            "delete_resource_from_cluster", "Objects deleted in members", *_LABELS, kind="unknown"
        )

    @contextmanager
    def creating(self, cluster: str, kind: Kind, *, again: bool) -> Iterator[None]:
        """Count one creation by how it ends; `again` where the object was there before and is gone."""
        place = (kind.resource.api_version, kind.resource.kind, cluster, "true" if again else "false")
        try:
            yield
        except (ApiError, Unreachable):
            self._created.add("error", *place)
            raise
        self._created.add("success", *place)

    @contextmanager
    def updating(self, cluster: str, kind: Kind) -> Iterator[None]:
        """Count an update that fails; one that succeeds is counted by `updated`."""
        try:
            yield
        except (ApiError, Unreachable):
            self._updated.add("error", kind.resource.api_version, kind.resource.kind, cluster, "none")
            raise

    def updated(self, cluster: str, kind: Kind, *, changed: bool) -> None:
        """Count an update that succeeded; `changed` unless the object was so before."""
        result = "updated" if changed else "none"
        self._updated.add("success", kind.resource.api_version, kind.resource.kind, cluster, result)

    @contextmanager
    def deleting(self, cluster: str, kind: Kind) -> Iterator[None]:
        """Count one deletion by how it ends; what is gone already needs none."""
        place = (kind.resource.api_version, kind.resource.kind, cluster)
        try:
            yield
        except (ApiError, Unreachable) as error:
            if not isinstance(error, ApiError) or error.status != 404:
                self._deleted.add("error", *place)
            raise
        self._deleted.add("success", *place)


def register_lane(reads: ReadCollector, lane: Lane) -> None:
    """Offer what one cluster's lane does, from its opening on."""
    cluster, stats = lane.cluster, lane.stats
    reads.gauge("lane_backlog", "Objects not yet in line", lambda: lane.backlog, member_cluster=cluster)
    reads.gauge("lane_up", "1 while the cluster answers", lambda: not lane.trouble, member_cluster=cluster)
    writes = "Writes to members by what they did"
    reads.counter("lane_writes", writes, lambda: stats.created, member_cluster=cluster, operation="create")
    reads.counter("lane_writes", writes, lambda: stats.updated, member_cluster=cluster, operation="update")
    reads.counter("lane_writes", writes, lambda: stats.deleted, member_cluster=cluster, operation="delete")
    reads.counter("lane_unchanged", "Objects found as they should be", lambda: stats.unchanged, member_cluster=cluster)
    reads.counter("lane_failures", "Deliveries that were refused", lambda: stats.failed, member_cluster=cluster)
    repairs = "Objects put back that had been changed or deleted in the member"
    reads.counter("lane_repairs", repairs, lambda: stats.repaired, member_cluster=cluster)
    window = lane.pace.window
    reads.gauge(
        "lane_requests_limit", "Requests sent at once at most", lambda: int(window.limit), member_cluster=cluster
    )
    breaks = "Times the cluster stopped answering"
    reads.counter("lane_interruptions", breaks, lambda: lane.connection.interruptions, member_cluster=cluster)

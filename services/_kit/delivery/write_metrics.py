"""Counts what a service wrote to its members, by result, kind and cluster: Karmada's names (reference 04 section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from services._kit.base.metrics import ReadCollector
from services._kit.delivery.kind_caches import Kind
from services._kit.kube.client import ApiError, Unreachable

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

"""The catalogue of the networking service's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable

from services._kit.base.metrics import ReadCollector
from services.networking.state import NetworkingState


def register(
    reads: ReadCollector, state: NetworkingState, written: Callable[[], float], ingresses: Callable[[], float]
) -> None:
    """Offer what is collected and written."""
    services = state.services
    reads.gauge(
        "networking_exported_services",
        "Services of which endpoints are collected",
        lambda: sum(1 for found in services.values() if found.collected),
    )
    reads.gauge(
        "networking_slices",
        "Slices of endpoints that count for other clusters",
        lambda: sum(len(found.collected) for found in services.values()),
    )
    reads.gauge(
        "networking_endpoints",
        "Endpoints that count for other clusters",
        lambda: sum(len(each.endpoints) for found in services.values() for each in found.collected.values()),
    )
    reads.gauge("networking_ingresses", "MultiClusterIngresses whose status is kept", ingresses)
    reads.gauge(
        "networking_last_resort_slices",
        "Slices of clusters that should not be used, which count because no other cluster offers the same",
        lambda: sum(bool(each.kept) for found in services.values() for each in found.collected.values()),
    )
    reads.counter("networking_writes", "Writes to EndpointSlices, Services and statuses", written)

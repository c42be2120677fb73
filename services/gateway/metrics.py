"""The catalogue of the gateway's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

from services._kit.base.metrics import NAMESPACE, SECONDS, ReadCollector
from services.gateway.views.catalog import Catalog

if TYPE_CHECKING:
    from services.gateway.http.collection_reads import Reader


class GatewayMetrics:
    """Requests by verb and code; sizes of the served collections are read at each scrape."""

    def __init__(self, registry: CollectorRegistry, reads: ReadCollector, catalog: Catalog, reader: Reader) -> None:
        self.requests = Counter(
            "gateway_requests",
            "Requests answered",
            ["verb", "resource", "code"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "gateway_request_seconds",
            "Time until a request was answered, watches not counted",
            ["verb"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=registry,
        )
        shown = {"ResourceBinding": catalog.bindings, "ClusterResourceBinding": catalog.cluster_bindings}
        for kind, collection in {**shown, "Work": catalog.works}.items():
            reads.gauge("gateway_objects", "Objects shown", collection.__len__, kind=kind)
        encoder = reader.encoder
        reads.gauge("gateway_watches", "Watches that run", lambda: reader.watches)
        reads.gauge("gateway_json_bytes", "Bytes of JSON kept for the next one who asks", lambda: encoder.kept_bytes)
        reads.counter("gateway_json_encoded", "Objects encoded", lambda: encoder.encoded)
        reads.counter("gateway_json_shared", "Objects answered with JSON encoded before", lambda: encoder.shared)

"""The catalogue of the webhook's metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Histogram

from services._kit.base.metrics import NAMESPACE, SECONDS, KitMetrics


class WebhookMetrics:
    """Reviews by kind, verb and outcome; how many run is read at each scrape."""

    def __init__(self, metrics: KitMetrics, running: Callable[[], int]) -> None:
        self.reviews = Counter(
            "webhook_reviews",
            "Reviews answered",
            ["kind", "verb", "outcome"],
            namespace=NAMESPACE,
            registry=metrics.registry,
        )
        self.seconds = Histogram(
            "webhook_review_seconds",
            "Time until a review was answered",
            ["kind"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=metrics.registry,
        )
        metrics.reads.gauge("webhook_reviews_running", "Reviews that are being answered", running)

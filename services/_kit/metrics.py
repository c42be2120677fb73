"""The catalogue of the runtime's metrics; most are read from plain counters when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

NAMESPACE: Final = "fleetlog"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Read = Callable[[], float]


class ReadCollector(Collector):
    """Gauges and counters whose values are asked for when a scrape comes."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._entries: list[tuple[bool, str, str, dict[str, str], Read]] = []

    def gauge(self, name: str, help_text: str, read: Read, **labels: str) -> None:
        """A value that goes up and down."""
        self._entries.append((False, name, help_text, labels, read))

    def counter(self, name: str, help_text: str, read: Read, **labels: str) -> None:
        """A value that only grows."""
        self._entries.append((True, name, help_text, labels, read))

    def forget(self, **labels: str) -> None:
        """Stop offering every value that carries these labels."""
        wanted = labels.items()
        self._entries = [entry for entry in self._entries if not wanted <= entry[3].items()]

    def describe(self) -> list[Metric]:
        """Nothing to check at registration: values exist only when they are asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families with their present values."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for is_counter, name, help_text, labels, read in self._entries:
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if is_counter else GaugeMetricFamily
                family = families[name] = kind(f"{NAMESPACE}_{name}", help_text, labels=["service", *labels])
            family.add_metric([self._service, *labels.values()], read())
        yield from families.values()


class KitMetrics:
    """Metrics of one service in one registry."""

    def __init__(self, service: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry(auto_describe=False)
        self.reads = ReadCollector(service)
        self.registry.register(self.reads)
        self._append_seconds = Histogram(
            "append_seconds",
            "Time until the log acknowledged a batch",
            ["service"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=self.registry,
        ).labels(service)
        self._batch_events = Histogram(
            "batch_events",
            "Events per batch",
            ["service"],
            namespace=NAMESPACE,
            buckets=SIZES,
            registry=self.registry,
        ).labels(service)
        self._decide_seconds = Histogram(
            "decide_seconds",
            "Time of one decision",
            ["service"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=self.registry,
        ).labels(service)

    def observe_append(self, events: int, seconds: float) -> None:
        """Record one acknowledged batch."""
        self._batch_events.observe(events)
        self._append_seconds.observe(seconds)

    def observe_decide(self, seconds: float) -> None:
        """Record one decision."""
        self._decide_seconds.observe(seconds)


def process_metrics(registry: CollectorRegistry) -> None:
    """Add memory, CPU and file descriptors of this process."""
    ProcessCollector(registry=registry)

"""The catalogue of the runtime's metrics; most are read from plain counters when they are scraped.

Our own names begin with `fleetlog_` and carry the service as `component`: `service` and `cluster` are what Prometheus
and its operator put on their targets. Where a metric means what one of Karmada's means, it has
Karmada's name, labels and buckets (docs/sources.md#metrics), so that dashboards and alerts
written for those keep working.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from services._kit.base.answer_limits import COUNTS

NAMESPACE: Final = "fleetlog"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Read = Callable[[], float]
Rows = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
Stored = Callable[[Sequence[object], float], None]
Kind = Literal["gauge", "counter", "unknown"]
_FAMILIES: Final = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "unknown": UnknownMetricFamily}


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of a histogram's buckets: `count` of them, each `factor` times the one before."""
    return tuple(round(start * factor**number, 9) for number in range(count))


STAGE_SECONDS: Final = exponential(0.001, 2, 15)


class Tally:
    """Counts by labels; counting is one look into a dictionary."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], float] = {}

    def add(self, *labels: str, count: float = 1.0) -> None:
        """Count one, or several."""
        self._counts[labels] = self._counts.get(labels, 0.0) + count

    def rows(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """All counts."""
        return self._counts.items()


class Timings:
    """A histogram by labels whose children are looked up once."""

    def __init__(
        self, registry: CollectorRegistry, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> None:
        self._histogram = Histogram(name, help_text, labels, buckets=buckets, registry=registry)
        self._children: dict[tuple[str, ...], Histogram] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        """Record one duration; a negative one is not known and does not count."""
        if seconds >= 0:
            self.offer(*labels).observe(seconds)

    def of(self, *labels: str) -> Callable[[float], None]:
        """Records durations under these labels."""
        return lambda seconds: self.observe(seconds, *labels)

    def offer(self, *labels: str) -> Histogram:
        """What these labels are recorded in: from now on they are shown, with zeros until the first duration."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._histogram.labels(*labels)
        return child

    def forget(self, *labels: str) -> None:
        """Stop offering what was recorded under these labels."""
        if self._children.pop(labels, None) is not None:
            self._histogram.remove(*labels)


class ReadCollector(Collector):
    """Gauges and counters whose values are asked for when a scrape comes."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._entries: list[tuple[bool, str, str, dict[str, str], Read]] = []
        self._tables: list[tuple[Kind, str, str, Sequence[str], Rows]] = []

    def gauge(self, name: str, help_text: str, read: Read, **labels: str) -> None:
        """A value that goes up and down."""
        self._entries.append((False, name, help_text, labels, read))

    def counter(self, name: str, help_text: str, read: Read, **labels: str) -> None:
        """A value that only grows."""
        self._entries.append((True, name, help_text, labels, read))

    def table(self, name: str, help_text: str, labels: Sequence[str], rows: Rows, kind: Kind = "gauge") -> None:
        """Many values under a name and labels that are used as they are; a counter's name gets `_total`."""
        self._tables.append((kind, name, help_text, labels, rows))

    def tally(self, name: str, help_text: str, *labels: str, kind: Kind = "counter") -> Tally:
        """Counts under a name and labels that are used as they are; kind `unknown` leaves `_total` away."""
        tally = Tally()
        self.table(name, help_text, labels, tally.rows, kind)
        return tally

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
                family = families[name] = kind(f"{NAMESPACE}_{name}", help_text, labels=["component", *labels])
            family.add_metric([self._service, *labels.values()], read())
        yield from families.values()
        for shape, name, help_text, names, rows in self._tables:
            many = _FAMILIES[shape](name, help_text, labels=names)
            for values, value in list(rows()):
                many.add_metric(values, value)
            yield many


class GroupCollector(Collector):
    """Metrics of several shard groups, each with the number of its group as label `shard_group`."""

    def __init__(self, groups: Mapping[str, CollectorRegistry]) -> None:
        self._groups = groups

    @classmethod
    def registry(cls, groups: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
        """One registry that offers what those of all groups hold."""
        made = CollectorRegistry(auto_describe=False)
        made.register(cls(groups))
        return made

    def describe(self) -> list[Metric]:
        """Nothing to check at registration: the groups have registered their own."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families with the samples of every group."""
        families: dict[str, Metric] = {}
        for group, registry in self._groups.items():
            for family in registry.collect():
                whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    whole.samples.append(sample._replace(labels={**sample.labels, "shard_group": group}))
        yield from families.values()


class KitMetrics:
    """Metrics of one service in one registry; hears of every decision."""

    def __init__(self, service: str, registry: CollectorRegistry | None = None) -> None:
        self.service = service
        self.registry = registry or CollectorRegistry(auto_describe=False)
        self.reads = ReadCollector(service)
        self.registry.register(self.reads)
        self._append_seconds = self._histogram("append_seconds", "Time until the log acknowledged a batch", SECONDS)
        self._batch_events = self._histogram("batch_events", "Events per batch", SIZES)
        self._decide_seconds = self._histogram("decide_seconds", "Time of one decision", SECONDS)
        self._stage_seconds = self._histogram(
            "stage_seconds", "Time from the first cause of an event until the event was on the log", STAGE_SECONDS
        )
        self.reads.counter(
            "bad_answers",
            "Answers of other systems that exceeded a limit or were not what was asked for; of the process",
            lambda: COUNTS.bad_answers,
        )
        self.reads.counter(
            "neighbour_waits_seconds",
            "Time for which members that sent much were made to wait; of the process",
            lambda: COUNTS.waited_seconds,
        )
        self._stored: list[Stored] = []
        self._failed: list[Callable[[float], None]] = []
        self.reads.table("karmada_build_info", "What runs here", tuple(_BUILD), lambda: [(tuple(_build().values()), 1)])

    def _histogram(self, name: str, help_text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            name, help_text, ["component"], namespace=NAMESPACE, buckets=buckets, registry=self.registry
        ).labels(self.service)

    def timings(self, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float]) -> Timings:
        """A histogram under a name and labels that are used as they are."""
        return Timings(self.registry, name, help_text, labels, buckets)

    def on_stored(self, listener: Stored) -> None:
        """Hear of the events of every decision that were stored, and of the seconds since their cause (-1: unknown)."""
        self._stored.append(listener)

    def on_failed(self, listener: Callable[[float], None]) -> None:
        """Hear of every decision that failed, and of the seconds since its cause (-1: unknown)."""
        self._failed.append(listener)

    def observe_append(self, events: int, seconds: float) -> None:
        """Record one acknowledged batch."""
        self._batch_events.observe(events)
        self._append_seconds.observe(seconds)

    def observe_stage(self, seconds: float) -> None:
        """Record how long after its cause an event was stored, for services that append outside of `decide`."""
        self._stage_seconds.observe(max(0.0, seconds))

    def decided(self, seconds: float) -> None:
        """Record one decision."""
        self._decide_seconds.observe(seconds)

    def stored(self, events: Sequence[object], seconds: float) -> None:
        """Record the events of one decision, stored so long after their cause; -1 when that is not known."""
        if seconds >= 0:
            for _ in events:
                self._stage_seconds.observe(seconds)
        for listener in self._stored:
            listener(events, seconds)

    def failed(self, seconds: float) -> None:
        """Record a decision that failed so long after its cause; -1 when that is not known."""
        for listener in self._failed:
            listener(seconds)


_BUILD: Final = ("git_version", "compiler", "platform")


def _build() -> Mapping[str, str]:
    try:
        ours = f"v{version('fleetlog')}"
    except PackageNotFoundError:
        ours = "unknown"
    compiler = f"{platform.python_implementation()} {platform.python_version()}"
    return dict(zip(_BUILD, (ours, compiler, f"{platform.system()}/{platform.machine()}".lower()), strict=True))


def process_metrics(registry: CollectorRegistry) -> None:
    """Add memory, CPU and file descriptors of this process."""
    ProcessCollector(registry=registry)

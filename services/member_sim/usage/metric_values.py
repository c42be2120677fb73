"""The values of custom and external metrics that users set: for the pods of a workload, an object, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import ZERO, Quantity, QuantityError, parse
from services._rules.kubernetes.selectors import Selector
from services._rules.metrics.measured_values import is_metric
from services._rules.metrics.metric_lists import ServedMetric
from services.member_sim.faults import UnknownTarget
from services.member_sim.usage.cluster_usage import ClusterUsage, Kind, Target
from services.member_sim.usage.load_model import WINDOW_SECONDS
from services.member_sim.world.world_model import stamp

MOST_VALUES: Final = 10_000
_PODS: Final = "pods"


class UnreadableValue(ValueError):
    """A value that cannot be set; the text says why."""


class WantedValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One value of a metric: a quantity; empty takes it back.

    With `kind` and `name`: of each pod of a workload, or of one pod. With `resource` (such as
    `ingresses.networking.k8s.io`) and `name`: of that object. With neither: an external metric. `labels` are those of
    the metric, `window` the seconds over which it was measured, `age` how long ago.
    """

    metric: str
    value: str = ""
    namespace: str = ""
    kind: Kind | None = None
    resource: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    window: int = WINDOW_SECONDS
    age: int = 0


Place = tuple[str, str, str, str, tuple[tuple[str, str], ...]]
"""Metric, namespace, kind or resource, name, labels of the metric."""


class MeasuredObject(Struct, frozen=True):
    """An object and its value."""

    kind: str
    api_version: str
    namespace: str
    name: str
    value: Quantity
    at: str
    window: int


Lookup = Callable[[str, str, str], "list[Manifest]"]
"""(resource with group, namespace, name) -> the objects, all of the namespace where the name is empty."""


class MetricValues:
    """What was set; pods and objects are looked up when they are asked for."""

    def __init__(self, usage: ClusterUsage, lookup: Lookup, now: Callable[[], float]) -> None:
        self._usage = usage
        self._lookup = lookup
        self._now = now
        self._values: dict[Place, WantedValue] = {}

    def set(self, wanted: WantedValue) -> None:
        """Put a value in force, or take it back; raises UnreadableValue and UnknownTarget."""
        place = self._place(wanted)
        if not wanted.value:
            self._values.pop(place, None)
            return
        try:
            parse(wanted.value)
        except QuantityError as error:
            raise UnreadableValue(f"value {wanted.value[:50]!r}: {error}") from error
        if not 0 < wanted.window < 1 << 31 or not 0 <= wanted.age < 1 << 31:
            raise UnreadableValue("window is a number of seconds above 0, age one of 0 or more")
        if place not in self._values and len(self._values) >= MOST_VALUES:
            raise UnreadableValue(f"{MOST_VALUES} values are set, as many as a member keeps; take some back")
        if wanted.kind is not None and not self._usage.knows(wanted.namespace, wanted.kind, wanted.name):
            raise UnknownTarget(f"there is no {wanted.kind} {wanted.namespace}/{wanted.name} in this member")
        if wanted.resource and not self._lookup(wanted.resource, wanted.namespace, wanted.name):
            raise UnknownTarget(f"there is no {wanted.resource} {wanted.namespace}/{wanted.name} in this member")
        self._values[place] = wanted

    @staticmethod
    def _place(wanted: WantedValue) -> Place:
        if not is_metric(wanted.metric):
            raise UnreadableValue(
                f"{wanted.metric[:80]!r} is no name of a metric: use letters, digits, '_', ':', '-', '.'"
            )
        if wanted.kind is not None and wanted.resource:
            raise UnreadableValue("say either a workload or an object")
        of = wanted.kind or wanted.resource
        if bool(of) != bool(wanted.name):
            raise UnreadableValue("a workload or object has a name, and an external metric has none")
        return wanted.metric, wanted.namespace, of, wanted.name, tuple(sorted(wanted.labels.items()))

    def shown(self) -> list[WantedValue]:
        """The values in force."""
        return [self._values[place] for place in sorted(self._values)]

    def custom_metrics(self) -> list[ServedMetric]:
        """The metrics of pods and objects, by name."""
        found = {
            ServedMetric(f"{value.resource or _PODS}/{value.metric}", bool(value.namespace or not value.resource))
            for value in self._values.values()
            if value.name
        }
        return sorted(found)

    def external_metrics(self) -> list[ServedMetric]:
        """The metrics of no object, by name."""
        return sorted({ServedMetric(value.metric) for value in self._values.values() if not value.name})

    def of_objects(
        self, resource: str, namespace: str, name: str, metric: str, labels: Selector, of_metric: Selector
    ) -> list[MeasuredObject]:
        """The value of each object of a resource: one by name, or all that have these labels where it is empty."""
        wanted = [
            value
            for value in self._values.values()
            if value.metric == metric and value.name and of_metric.matches(value.labels)
        ]
        if not wanted:
            return []
        found = []
        for obj in self._objects(resource, namespace, name):
            values = self._values_of(obj, resource, wanted)
            if values and labels.matches(obj["metadata"].get("labels") or {}):
                found.append(self._measured(obj, values))
        return found

    def external(self, namespace: str, metric: str, labels: Selector) -> list[tuple[WantedValue, str]]:
        """The values of an external metric, and when each was measured; those without a namespace count in all."""
        return [
            (value, self._at(value))
            for value in self._values.values()
            if value.metric == metric
            and not value.name
            and value.namespace in ("", namespace)
            and labels.matches(value.labels)
        ]

    def _objects(self, resource: str, namespace: str, name: str) -> list[Manifest]:
        if resource != _PODS:
            return self._lookup(resource, namespace, name)
        return [pod for pod in self._usage.pods(namespace, name) if self._usage.runs(pod)]

    def _values_of(self, obj: Manifest, resource: str, wanted: list[WantedValue]) -> list[WantedValue]:
        """What was set for an object: for a pod its own, else those of the nearest workload above it."""
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        own = [each for each in wanted if (each.resource, each.namespace, each.name) == (resource, namespace, name)]
        if own or resource != _PODS:
            return own
        for target in self._usage.targets(obj):
            values = [each for each in wanted if _target(each) == target]
            if values:
                return values
        return []

    def _measured(self, obj: Manifest, values: list[WantedValue]) -> MeasuredObject:
        total = ZERO
        for each in values:
            total += parse(each.value)
        oldest = max(values, key=lambda each: each.age)
        meta = obj["metadata"]
        return MeasuredObject(
            obj["kind"],
            obj["apiVersion"],
            meta.get("namespace", ""),
            meta["name"],
            total,
            self._at(oldest),
            max(each.window for each in values),
        )

    def _at(self, value: WantedValue) -> str:
        return stamp(self._now() // WINDOW_SECONDS * WINDOW_SECONDS - value.age)


def _target(value: WantedValue) -> Target | None:
    return (value.namespace, value.kind, value.name) if value.kind is not None else None

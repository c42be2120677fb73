"""Lists of the metrics that are served: read from members, and united."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from services._rules.metrics.measured_values import is_metric
from services._rules.metrics.metric_questions import EXTERNAL

MOST_METRICS: Final = 10_000
"""Metrics of one member, and of all together, that are listed; the others can be asked for all the same."""
_LIST_KINDS: Final = {True: "ExternalMetricValueList", False: "MetricValueList"}


class ServedMetric(Struct, frozen=True, order=True):
    """A metric as discovery names it: `pods/http_requests`, or its bare name where it is of no object."""

    name: str
    namespaced: bool = True


class _Resource(Struct):
    name: str = ""
    namespaced: bool = False


class _Resources(Struct):
    kind: str
    resources: list[_Resource] | None = None


_resources: Final = msgspec.json.Decoder(_Resources)


def metrics_of(body: bytes, group: str) -> frozenset[ServedMetric]:
    """The metrics in an APIResourceList of a member; raises msgspec.MsgspecError where it is none.

    What is not the name of a metric is left out, and so is what exceeds the bound.
    """
    found = _resources.decode(body)
    if found.kind != "APIResourceList":
        raise msgspec.ValidationError(f"it is of kind {found.kind[:60]!r} and not APIResourceList")
    named = (one for one in found.resources or () if _is_named(one.name, group))
    return frozenset(ServedMetric(one.name, one.namespaced) for one in _first(named))


def _first(named: Iterable[_Resource]) -> list[_Resource]:
    return [one for _, one in zip(range(MOST_METRICS), named, strict=False)]


def _is_named(name: str, group: str) -> bool:
    parts = name.split("/")
    return len(parts) == (1 if group == EXTERNAL else 2) and all(map(is_metric, parts))


def united(lists: Iterable[frozenset[ServedMetric]]) -> list[ServedMetric]:
    """All metrics that any member serves, in order and each once."""
    found: dict[str, ServedMetric] = {}
    for served in lists:
        for metric in served:
            # One that is of namespaced objects anywhere can be asked for in a namespace.
            if metric.namespaced or metric.name not in found:
                found[metric.name] = metric
    return sorted(found.values())[:MOST_METRICS]


def resource_entries(group: str, metrics: Iterable[ServedMetric]) -> list[dict[str, object]]:
    """Metrics as entries of an APIResourceList."""
    kind = _LIST_KINDS[group == EXTERNAL]
    shared = {"singularName": "", "kind": kind, "verbs": ["get"]}
    return [{"name": metric.name, "namespaced": metric.namespaced, **shared} for metric in metrics]

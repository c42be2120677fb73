"""custom.metrics.k8s.io and external.metrics.k8s.io over the values that were set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import parse
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, parse_selector
from services._rules.metrics.metric_lists import resource_entries
from services._rules.metrics.metric_questions import (
    CUSTOM,
    EVERY,
    EXTERNAL,
    OF_NAMESPACE,
    VERSIONS,
    ExternalQuestion,
    ValueQuestion,
    question_of,
)
from services.apiserver.core.status_errors import ApiError, bad_request, no_such_path
from services.apiserver.kinds.registry import Registry
from services.apiserver.server import ApiServer
from services.member_sim.usage.metric_values import MeasuredObject, MetricValues

_NAMESPACES: Final = "namespaces"


class CustomMetrics:
    """custom.metrics.k8s.io."""

    group = CUSTOM
    versions = VERSIONS[CUSTOM]

    def __init__(self, values: MetricValues) -> None:
        self._values = values

    def resources(self, version: str) -> list[dict[str, Any]]:
        """The metrics of pods and objects."""
        return resource_entries(self.group, self._values.custom_metrics())

    def answer(self, version: str, parts: Sequence[str], query: dict[str, str]) -> Manifest:
        """A MetricValueList; raises ApiError 404 where there is no value, and 400."""
        question = question_of(self.group, parts)
        if not isinstance(question, ValueQuestion):
            raise no_such_path()
        resource, namespace, name = question.resource, question.namespace, question.name
        if resource == OF_NAMESPACE:
            resource, namespace = _NAMESPACES, ""
        found = self._values.of_objects(
            resource,
            namespace,
            "" if name == EVERY else name,
            question.metric,
            _selector(query, "labelSelector"),
            _selector(query, "metricLabelSelector"),
        )
        if not found:
            raise _not_found(question.metric, f"{question.resource} {name}")
        items = [_item(one, question.metric, version) for one in found]
        return {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/{version}", "metadata": {}, "items": items}


class ExternalMetrics:
    """external.metrics.k8s.io."""

    group = EXTERNAL
    versions = VERSIONS[EXTERNAL]

    def __init__(self, values: MetricValues) -> None:
        self._values = values

    def resources(self, version: str) -> list[dict[str, Any]]:
        """The metrics of no object."""
        return resource_entries(self.group, self._values.external_metrics())

    def answer(self, version: str, parts: Sequence[str], query: dict[str, str]) -> Manifest:
        """An ExternalMetricValueList; raises ApiError 404 where there is no value, and 400."""
        question = question_of(self.group, parts)
        if not isinstance(question, ExternalQuestion):
            raise no_such_path()
        found = self._values.external(question.namespace, question.metric, _selector(query, "labelSelector"))
        if not found:
            raise _not_found(question.metric, f"namespace {question.namespace}")
        items = [
            {
                "metricName": question.metric,
                "metricLabels": value.labels,
                "timestamp": at,
                "window": value.window,
                "value": str(parse(value.value)),
            }
            for value, at in found
        ]
        kind = "ExternalMetricValueList"
        return {"kind": kind, "apiVersion": f"{EXTERNAL}/{version}", "metadata": {}, "items": items}


def add_values(server: ApiServer, values: MetricValues) -> None:
    """Serve both groups."""
    server.computed.add(CustomMetrics(values))
    server.computed.add(ExternalMetrics(values))


def lookup_in(server: ApiServer) -> Callable[[str, str, str], list[Manifest]]:
    """Finds objects of any kind that a server stores."""

    def find(resource: str, namespace: str, name: str) -> list[Manifest]:
        plural, _, group = resource.partition(".")
        version = _version(server.registry, group, plural)
        if not version:
            return []
        if not name:
            return server.local.list(version, plural, namespace)
        found = server.local.get(version, plural, namespace, name)
        return [found] if found is not None else []

    return find


def _version(registry: Registry, group: str, plural: str) -> str:
    """The apiVersion in which objects of a plural are read; empty where none is stored."""
    for version in registry.versions(group) if group else ["v1"]:
        kind = registry.find(group, version, plural)
        if kind is not None and not kind.virtual:
            return kind.resource.api_version
    return ""


def _selector(query: dict[str, str], name: str) -> Selector:
    try:
        return parse_selector(query.get(name, ""))
    except LabelSelectorError as error:
        raise bad_request(f"{name}: {error}") from error


def _item(one: MeasuredObject, metric: str, version: str) -> Manifest:
    place = {"namespace": one.namespace} if one.namespace else {}
    described = {"kind": one.kind, **place, "name": one.name, "apiVersion": one.api_version}
    measured: Manifest = {"timestamp": one.at, "value": str(one.value)}
    if version == "v1beta1":
        named = {"metricName": metric, "window": one.window, "selector": None}
        return {"describedObject": described, **named, **measured}
    identifier = {"name": metric, "selector": None}
    return {"describedObject": described, "metric": identifier, "windowSeconds": one.window, **measured}


def _not_found(metric: str, what: str) -> ApiError:
    return ApiError(404, "NotFound", f"no value of {metric} is set for {what}", {"name": metric})

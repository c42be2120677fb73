"""Reads the metrics of an autoscaler's spec into one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import QuantityError, parse
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector

FIELDS: Final[Mapping[str, str]] = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
"""Types of metrics, and the field of a metric that has its source."""
REASONS: Final[Mapping[str, str]] = {kind: f"FailedGet{kind}Metric" for kind in FIELDS}
"""Why scaling is not active when a metric of a type cannot be read."""


class MetricSpec(Struct, frozen=True):
    """One metric with its target: utilization in percent, or a value, or an average value of pods, in thousandths.

    `problem` says why there is nothing to read.
    """

    kind: str
    name: str = ""
    container: str = ""
    selector: str = ""
    object: tuple[str, str, str] = ("", "", "")
    """apiVersion, kind and name of the described object."""
    utilization: int | None = None
    value: int | None = None
    average: int | None = None
    problem: str = ""

    @property
    def of_pods(self) -> bool:
        """Whether each pod has a value of its own."""
        return self.kind in ("Resource", "ContainerResource", "Pods")

    @property
    def of_resource(self) -> bool:
        """Whether it is what containers use."""
        return self.kind in ("Resource", "ContainerResource")

    @property
    def scales_from_zero(self) -> bool:
        """Whether it has a value when there is no pod."""
        return self.kind in ("Object", "External")


def metric_specs(spec: Manifest) -> tuple[MetricSpec, ...]:
    """The metrics of the spec of an autoscaler, in its order."""
    return tuple(metric_spec(metric) for metric in spec.get("metrics") or ())


def metric_spec(metric: Mapping[str, Any]) -> MetricSpec:
    """One metric; whatever cannot be read of it is its problem."""
    kind = str(metric.get("type") or "")
    source = metric.get(FIELDS.get(kind, ""))
    if not isinstance(source, Mapping):
        return MetricSpec(kind, problem=f'unknown metric source type "{kind}"')
    identifier, target = source.get("metric") or {}, source.get("target") or {}
    described = source.get("describedObject") or {}
    try:
        found = MetricSpec(
            kind,
            name=str(source.get("name") or identifier.get("name") or ""),
            container=str(source.get("container") or ""),
            selector=str(compile_selector(identifier.get("selector") or {})),
            object=(
                str(described.get("apiVersion") or ""),
                str(described.get("kind") or ""),
                str(described.get("name") or ""),
            ),
            utilization=target.get("averageUtilization"),
            value=_milli(target.get("value")),
            average=_milli(target.get("averageValue")),
        )
    except (QuantityError, LabelSelectorError) as error:
        return MetricSpec(kind, problem=str(error))
    return found if not (wrong := _wrong_target(found)) else MetricSpec(kind, name=found.name, problem=wrong)


def _wrong_target(found: MetricSpec) -> str:
    targets = (found.utilization, found.value, found.average)
    if any(target is not None and target <= 0 for target in targets):
        return f"the target of {found.kind} metric {found.name} is not above 0"
    if found.of_resource and found.utilization is None and found.average is None:
        return "invalid resource metric source: neither an average utilization nor an average value target was set"
    if found.kind == "Pods" and found.average is None:
        return "invalid pods metric source: an average value target must be set"
    if found.scales_from_zero and found.value is None and found.average is None:
        return f"invalid {found.kind.lower()} metric source: neither a value target nor an average value target was set"
    return ""


def _milli(amount: Any) -> int | None:
    return None if amount is None else parse(amount).milli_value()

"""Defaults and rules of FederatedHPA: those of a HorizontalPodAutoscaler, and some more (docs/sources.md#admission)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.later.federated_quota import is_extended
from services._rules.constants import LABEL_TRUE, SCALE_TO_ZERO_ANNOTATION
from services._rules.kubernetes.patch.json_patch import without_nulls
from services._rules.kubernetes.resource_quota import PLAIN
from services._rules.kubernetes.validation import metric_targets as targets
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, each, invalid, not_supported
from services._rules.kubernetes.validation.field_rules import apply, inside, not_negative
from services._rules.kubernetes.validation.field_rules import each as of_each

_KINDS: Final = ("ContainerResource", "Object", "Pods", "Resource")
_EXPIRY_SECONDS: Final = 15
_DOUBLE: Final = {"type": "Percent", "value": 100, "periodSeconds": _EXPIRY_SECONDS}
_DEFAULT_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": _EXPIRY_SECONDS}, _DOUBLE],
}
_DEFAULT_DOWN: Final = {"selectPolicy": "Max", "policies": [_DOUBLE]}


def default(obj: Manifest) -> Manifest:
    """The autoscaler with minimum, metrics and both directions of behaviour filled in."""
    spec = dict(obj.get("spec") or {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        spec["behavior"] = {
            "scaleUp": _filled(_DEFAULT_UP, behavior.get("scaleUp")),
            "scaleDown": _filled(_DEFAULT_DOWN, behavior.get("scaleDown")),
        }
    return obj | {"spec": spec}


def validate(obj: Manifest) -> list[FieldError]:
    """What is wrong with an autoscaler; one that says so may go down to zero, on metrics outside of clusters."""
    found = obj.get("metadata") or {}
    rules, checked = _RULES, without_nulls(obj)
    if (found.get("annotations") or {}).get(SCALE_TO_ZERO_ANNOTATION) == LABEL_TRUE:
        rules, checked = _RULES_TO_ZERO, _with_one_at_least(checked)
    return metadata.check_create(found, names.subdomain, namespaced=True) + apply(rules, checked)


def _with_one_at_least(obj: Manifest) -> Manifest:
    """The autoscaler as the rules take it: no replicas are allowed where a metric is there without pods."""
    spec = obj.get("spec") or {}
    kinds = {metric.get("type") for metric in spec.get("metrics") or () if isinstance(metric, Mapping)}
    if spec.get("minReplicas") == 0 and kinds & {"External", "Object"}:
        return obj | {"spec": spec | {"minReplicas": 1}}
    return obj


def _metric(metric: Manifest, field: str) -> list[FieldError]:
    return _metric_of(metric, field, _KINDS)


def _metric_to_zero(metric: Manifest, field: str) -> list[FieldError]:
    return _metric_of(metric, field, (*_KINDS, "External"))


def _metric_of(metric: Manifest, field: str, kinds: tuple[str, ...]) -> list[FieldError]:
    kind = metric.get("type") or ""
    if kind and kind not in kinds:
        return [not_supported(f"{field}.type", kind, kinds)]
    found = targets.metric(metric, field)
    measured = metric.get("containerResource") if kind == "ContainerResource" else None
    name, container = (measured or {}).get("name") or "", (measured or {}).get("container") or ""
    place = f"{field}.containerResource"
    if name and not (name in PLAIN or name.startswith("hugepages-") or is_extended(name)):
        problem = "must be a standard resource of containers or an extended one"
        found.append(invalid(f"{place}.name", name, problem))
    return found + (each(f"{place}.container", container, names.label(container)) if container else [])


_RULES: Final = (
    inside("spec", *targets.SIZES, of_each("metrics", _metric), inside("behavior", *targets.BEHAVIOR), absent={}),
    inside("status", not_negative("currentReplicas", "desiredReplicas")),
)
_RULES_TO_ZERO: Final = (
    inside(
        "spec", *targets.SIZES, of_each("metrics", _metric_to_zero), inside("behavior", *targets.BEHAVIOR), absent={}
    ),
    _RULES[1],
)


def _filled(defaults: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Rules of one direction; only what the defaults know is taken over."""
    result = dict(defaults)
    for field in ("stabilizationWindowSeconds", "selectPolicy", "policies"):
        if given is not None and given.get(field) is not None:
            result[field] = given[field]
    return result

"""Defaults and rules of FederatedHPA (reference 01 §4.2, §4.3)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.later.federated_quota import is_extended
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    each,
    forbidden,
    invalid,
    not_supported,
    required,
)

Part = Mapping[str, Any]

_SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
_POLICY_TYPES: Final = ("Percent", "Pods")
_TARGET_TYPES: Final = ("AverageValue", "Utilization", "Value")
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_STANDARD_CONTAINER_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800
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
    """What is wrong with an autoscaler."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    found = metadata.check_create(obj.get("metadata") or {}, names.subdomain, namespaced=True)
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        found.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        found.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        found.append(invalid("spec.maxReplicas", most, "must be greater than or equal to minReplicas"))
    found += target_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for position, metric in enumerate(spec.get("metrics") or ()):
        found += _metric(metric, f"spec.metrics[{position}]")
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            found += _rules(behavior[direction], f"spec.behavior.{direction}")
    for field in ("currentReplicas", "desiredReplicas"):
        if (status.get(field) or 0) < 0:
            found.append(invalid(f"status.{field}", status[field], "must be greater than or equal to 0"))
    return found


def target_reference(reference: Part, field: str) -> list[FieldError]:
    """What is wrong with a reference to an object of the same namespace."""
    found: list[FieldError] = []
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if value:
            found += each(f"{field}.{name}", value, names.path_segment(value))
        else:
            found.append(required(f"{field}.{name}"))
    return found


def _filled(defaults: Mapping[str, Any], given: Part | None) -> dict[str, Any]:
    """Rules of one direction; only what the defaults know is taken over."""
    result = dict(defaults)
    for field in ("stabilizationWindowSeconds", "selectPolicy", "policies"):
        if given is not None and given.get(field) is not None:
            result[field] = given[field]
    return result


def _metric(metric: Part, field: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    if not kind:
        return [required(f"{field}.type", "must name a metric source")]
    source = _SOURCES.get(kind)
    if source is None:
        return [not_supported(f"{field}.type", kind, sorted(_SOURCES))]
    found: list[FieldError] = []
    value = metric.get(source)
    if value is None:
        found.append(required(f"{field}.{source}", f"must be set for a metric of type {kind}"))
    else:
        found += _METRICS[source](value, f"{field}.{source}")
    return found + [
        forbidden(f"{field}.{other}", f"must not be set for a metric of type {kind}")
        for other in (*_SOURCES.values(), "external")
        if other != source and metric.get(other) is not None
    ]


def _object_metric(value: Part, field: str) -> list[FieldError]:
    target = value.get("target") or {}
    found = target_reference(value.get("describedObject") or {}, f"{field}.describedObject")
    found += _metric_name(value, field) + _target(target, f"{field}.target")
    if target.get("value") is None and target.get("averageValue") is None:
        found.append(required(f"{field}.target.averageValue", "must set either value or averageValue"))
    return found


def _pods_metric(value: Part, field: str) -> list[FieldError]:
    target = value.get("target") or {}
    found = _metric_name(value, field) + _target(target, f"{field}.target")
    if target.get("averageValue") is None:
        found.append(required(f"{field}.target.averageValue", "must be set and positive"))
    return found


def _resource_metric(value: Part, field: str) -> list[FieldError]:
    name = value.get("name") or ""
    found = [] if name else [required(f"{field}.name", "must name a resource")]
    return found + _resource_target(value.get("target") or {}, f"{field}.target")


def _container_metric(value: Part, field: str) -> list[FieldError]:
    name, container = value.get("name") or "", value.get("container") or ""
    found: list[FieldError] = []
    if not name:
        found.append(required(f"{field}.name", "must name a resource"))
    elif name not in _STANDARD_CONTAINER_RESOURCES and not name.startswith("hugepages-") and not is_extended(name):
        found.append(invalid(f"{field}.name", name, "must be a standard resource of containers or an extended one"))
    if not container:
        found.append(required(f"{field}.container", "must name a container"))
    else:
        found += each(f"{field}.container", container, names.label(container))
    return found + _resource_target(value.get("target") or {}, f"{field}.target")


_METRICS: Final = {
    "object": _object_metric,
    "pods": _pods_metric,
    "resource": _resource_metric,
    "containerResource": _container_metric,
}


def _metric_name(value: Part, field: str) -> list[FieldError]:
    name = (value.get("metric") or {}).get("name") or ""
    if not name:
        return [required(f"{field}.metric.name", "must name a metric")]
    return each(f"{field}.metric.name", name, names.path_segment(name))


def _resource_target(target: Part, field: str) -> list[FieldError]:
    found = _target(target, field)
    utilization, value = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and value is None:
        found.append(required(f"{field}.averageUtilization", "must set either averageUtilization or averageValue"))
    if utilization is not None and value is not None:
        found.append(forbidden(f"{field}.averageValue", "may not be set together with averageUtilization"))
    return found


def _target(target: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    kind = target.get("type") or ""
    if not kind:
        found.append(required(f"{field}.type", "must name the type of the target"))
    elif kind not in _TARGET_TYPES:
        found.append(not_supported(f"{field}.type", kind, _TARGET_TYPES))
    found += [
        invalid(f"{field}.{name}", target[name], "must be positive")
        for name in ("value", "averageValue")
        if target.get(name) is not None and quantity.parse(target[name]).nano <= 0
    ]
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        found.append(invalid(f"{field}.averageUtilization", utilization, "must be greater than 0"))
    return found


def _rules(rules: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and not 0 <= window <= _LONGEST_WINDOW:
        place = f"{field}.stabilizationWindowSeconds"
        found.append(invalid(place, window, f"must be between 0 and {_LONGEST_WINDOW} seconds"))
    if select is not None and select not in _SELECT_POLICIES:
        found.append(not_supported(f"{field}.selectPolicy", select, _SELECT_POLICIES))
    if not rules.get("policies"):
        found.append(required(f"{field}.policies", "must have at least one policy"))
    for position, policy in enumerate(rules.get("policies") or ()):
        place = f"{field}.policies[{position}]"
        kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
        if kind not in _POLICY_TYPES:
            found.append(not_supported(f"{place}.type", kind, _POLICY_TYPES))
        if value <= 0:
            found.append(invalid(f"{place}.value", value, "must be greater than zero"))
        if not 0 < period <= _LONGEST_PERIOD:
            found.append(invalid(f"{place}.periodSeconds", period, f"must be between 1 and {_LONGEST_PERIOD} seconds"))
    return found

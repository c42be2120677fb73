"""Checks of what a HorizontalPodAutoscaler measures and how fast it scales, in the terms of autoscaling/v2."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from services.apiserver.kinds.checks import quantities as quantity

SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")
_KINDS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_POSITIVE: Final = "must be greater than zero"
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800


def metric(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with one metric."""
    kind = value.get("type", "")
    present = [name for name in SOURCES if name in value]
    if not kind:
        return [required(f"{field}.type", "must specify a metric source type")]
    if kind not in _KINDS:
        return [not_supported(f"{field}.type", kind, _KINDS)]
    wanted = kind[0].lower() + kind[1:]
    if wanted not in present:
        return [required(f"{field}.{wanted}", "must populate information for the given metric source")]
    found = _source(wanted, value[wanted], f"{field}.{wanted}")
    text = "must populate the given metric source only"
    return found + [forbidden(f"{field}.{name}", text) for name in present if name != wanted]


def reference(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the reference to the object that is scaled or measured."""
    found: list[FieldError] = []
    for name in ("kind", "name"):
        text = value.get(name, "")
        place = f"{field}.{name}"
        found += [invalid(place, text, message) for message in names.path_segment(text)] if text else [required(place)]
    return found


def behavior(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the rules of scaling up and down."""
    return [
        error
        for name in ("scaleUp", "scaleDown")
        if value.get(name) is not None
        for error in _rules(value[name], f"{field}.{name}")
    ]


def _source(name: str, value: Manifest, field: str) -> list[FieldError]:
    target, place = value.get("target") or {}, f"{field}.target"
    found: list[FieldError] = []
    if name == "object":
        found += reference(value.get("describedObject") or {}, f"{field}.describedObject")
    if name in ("object", "external", "pods"):
        found += _identifier(value.get("metric") or {}, f"{field}.metric")
    else:
        if not value.get("name"):
            found.append(required(f"{field}.name", "must specify a resource name"))
        if name == "containerResource" and not value.get("container"):
            found.append(required(f"{field}.container", "must specify a container"))
    found += _target(target, place)
    total, average = (target.get(one) is not None for one in ("value", "averageValue"))
    if name == "object" and not (total or average):
        found.append(required(f"{place}.averageValue", "must set either a target value or averageValue"))
    elif name == "external":
        found += _one_of(target, place, ("value", "a target value for metric"), ("averageValue", "a per-pod target"))
    elif name == "pods" and not (average and quantity.value_of(target["averageValue"]) > 0):
        found.append(required(f"{place}.averageValue", "must specify a positive target averageValue"))
    elif name in ("resource", "containerResource"):
        raw, used = ("averageValue", "a target raw value"), ("averageUtilization", "a target utilization")
        found += _one_of(target, place, raw, used)
    return found


def _one_of(target: Manifest, place: str, other: tuple[str, str], usual: tuple[str, str]) -> list[FieldError]:
    """What is wrong unless one of two fields, each with its meaning, is set; where both lack, `usual` is named."""
    given = sum(target.get(name) is not None for name, _ in (other, usual))
    if not given:
        return [required(f"{place}.{usual[0]}", f"must set either {other[1]} or {usual[1]}")]
    if given > 1:
        return [forbidden(f"{place}.{other[0]}", f"may not set both {other[1]} and {usual[1]}")]
    return []


def _identifier(value: Manifest, field: str) -> list[FieldError]:
    name = value.get("name", "")
    if not name:
        return [required(f"{field}.name", "must specify a metric name")]
    return [invalid(f"{field}.name", name, text) for text in names.path_segment(name)]


def _target(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    kind = value.get("type", "")
    if not kind:
        found.append(required(f"{field}.type", "must specify a metric target type"))
    elif kind not in _TARGETS:
        found.append(invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    if value.get("value") is not None and quantity.value_of(value["value"]) <= 0:
        found.append(invalid(f"{field}.value", value["value"], "must be positive"))
    used = value.get("averageUtilization")
    if used is not None and used < 1:
        found.append(invalid(f"{field}.averageUtilization", used, "must be greater than 0"))
    if value.get("averageValue") is not None and quantity.value_of(value["averageValue"]) <= 0:
        found.append(invalid(f"{field}.averageValue", value["averageValue"], "must be positive"))
    return found


def _rules(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    window, choice = value.get("stabilizationWindowSeconds"), value.get("selectPolicy")
    if window is not None and window < 0:
        text = "must be greater than or equal to zero"
        found.append(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if window is not None and window > _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        found.append(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if choice is not None and choice not in ("Max", "Min", "Disabled"):
        found.append(not_supported(f"{field}.selectPolicy", choice, ("Disabled", "Max", "Min")))
    policies = value.get("policies") or []
    if not policies:
        found.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        place, kind, period = f"{field}.policies[{index}]", policy.get("type", ""), policy.get("periodSeconds", 0)
        if kind not in ("Pods", "Percent"):
            found.append(not_supported(f"{place}.type", kind, ("Percent", "Pods")))
        if policy.get("value", 0) <= 0:
            found.append(invalid(f"{place}.value", policy.get("value", 0), _POSITIVE))
        if period <= 0:
            found.append(invalid(f"{place}.periodSeconds", period, _POSITIVE))
        if period > _LONGEST_PERIOD:
            text = f"must be less than or equal to {_LONGEST_PERIOD}"
            found.append(invalid(f"{place}.periodSeconds", period, text))
    return found

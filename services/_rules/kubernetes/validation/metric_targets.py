"""Checks of what a HorizontalPodAutoscaler measures and how fast it scales, in the terms of autoscaling/v2."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    apply,
    choice,
    each,
    inside,
    needed,
    number,
    only_if,
    refused,
    text,
    valid,
)

_POSITIVE: Final = "must be greater than zero"
_positive = valid(lambda value: quantity.parse(value).nano > 0, "must be positive")
REFERENCE = (text("kind", names.path_segment, need=""), text("name", names.path_segment, need=""))


def _one_of(other: str, other_text: str, usual: str, usual_text: str) -> Check:
    """One of two fields, each with its meaning, is set; where both lack, `usual` is named."""

    def check(target: Manifest, field: str) -> list[FieldError]:
        given = sum(target.get(name) is not None for name in (other, usual))
        if not given:
            return [required(f"{field}.{usual}", f"must set either {other_text} or {usual_text}")]
        if given > 1:
            return [forbidden(f"{field}.{other}", f"may not set both {other_text} and {usual_text}")]
        return []

    return check


_TARGET = (
    needed("type", detail="must specify a metric target type"),
    refused(
        "type",
        "must be either Utilization, Value, or AverageValue",
        lambda target: target.get("type", "") not in ("Utilization", "Value", "AverageValue"),
        "",
    ),
    inside("value", _positive),
    number("averageUtilization", 1, detail="must be greater than 0"),
    inside("averageValue", _positive),
)
_SOME_VALUE = needed(
    "averageValue",
    detail="must set either a target value or averageValue",
    when=lambda target: "value" not in target,
)
_POSITIVE_AVERAGE = only_if(
    lambda target: quantity.parse(target.get("averageValue")).nano <= 0,
    lambda _, field: [required(f"{field}.averageValue", "must specify a positive target averageValue")],
)
_METRIC = inside("metric", text("name", names.path_segment, need="must specify a metric name"), absent={})
_NAME = needed("name", detail="must specify a resource name")
_OF_PODS = _one_of("averageValue", "a target raw value", "averageUtilization", "a target utilization")
_OUTSIDE = _one_of("value", "a target value for metric", "averageValue", "a per-pod target")


def _target(rule: Check) -> Check:
    return inside("target", *_TARGET, rule, absent={})


SOURCES: Final[dict[str, Rules]] = {
    "object": (inside("describedObject", *REFERENCE, absent={}), _METRIC, _target(_SOME_VALUE)),
    "external": (_METRIC, _target(_OUTSIDE)),
    "pods": (_METRIC, _target(_POSITIVE_AVERAGE)),
    "resource": (_NAME, _target(_OF_PODS)),
    "containerResource": (_NAME, needed("container", detail="must specify a container"), _target(_OF_PODS)),
}
_KINDS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")


def metric(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with one metric."""
    kind = value.get("type", "")
    present = [name for name in SOURCES if name in value]
    found = [] if kind else [required(f"{field}.type", "must specify a metric source type")]
    if kind not in _KINDS:
        found.append(not_supported(f"{field}.type", kind, _KINDS))
    if present:
        found += apply(SOURCES[present[0]], value[present[0]], f"{field}.{present[0]}")
    wanted = kind[:1].lower() + kind[1:]
    if kind not in _KINDS:
        found.append(not_supported(f"{field}.type", kind, _KINDS))
    elif wanted not in value:
        found.append(required(f"{field}.{wanted}", "must populate information for the given metric source"))
    others = [name for name in present if name != wanted] if len(present) != 1 else []
    return found + [forbidden(f"{field}.{name}", "must populate the given metric source only") for name in others]


def scales_to_zero(spec: Manifest, path: str) -> list[FieldError]:
    """Return an error when there may be no replicas and nothing outside them is measured that brings them back."""
    measured = {item.get("type") for item in spec.get("metrics") or ()}
    if spec.get("minReplicas") != 0 or measured & {"Object", "External"}:
        return []
    text = "must specify at least one Object or External metric to support scaling to zero replicas"
    return [forbidden(f"{path}.metrics", text)]


_SCALING = (
    number("stabilizationWindowSeconds", 0, detail="must be greater than or equal to zero"),
    number("stabilizationWindowSeconds", most=3600, detail="must be less than or equal to 3600"),
    choice("selectPolicy", ("Disabled", "Max", "Min")),
    needed("policies", detail="must specify at least one Policy"),
    each(
        "policies",
        choice("type", ("Percent", "Pods"), blank=True),
        number("value", 1, detail=_POSITIVE, absent=0),
        number("periodSeconds", 1, detail=_POSITIVE, absent=0),
        number("periodSeconds", most=1800, detail="must be less than or equal to 1800"),
    ),
)
BEHAVIOR = (inside("scaleUp", *_SCALING), inside("scaleDown", *_SCALING))


def _limits(spec: Manifest, path: str) -> list[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is None or most >= least:
        return []
    return [invalid(f"{path}.maxReplicas", most, "must be greater than or equal to `minReplicas`")]


def sizes(need: str | None = None) -> Rules:
    """Return the rules of limits and target; `need` is the detail of the error where there is no upper limit."""
    return (
        number("minReplicas", 1, detail="must be greater than or equal to 1"),
        number("maxReplicas", 1, detail="must be greater than 0", need=need, absent=0),
        _limits,
        inside("scaleTargetRef", *REFERENCE, absent={}),
    )


SIZES = sizes()

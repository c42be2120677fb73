"""HorizontalPodAutoscalers; stored as autoscaling/v2, of which v1 is a view."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import metric_targets as metric_checks
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services._rules.kubernetes.validation.field_rules import apply, each, inside, text
from services._rules.kubernetes.validation.status_fields import counts
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.resources import amount, resource_name
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.defaults import Defaults
from services.apiserver.kinds.kind_model import DecodeError

CPU_PERCENT = 80
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


_HELD = {
    METRICS: ("v2beta1", "HorizontalPodAutoscalerSpec", "metrics", list),
    CURRENT: ("v2beta1", "HorizontalPodAutoscalerStatus", "currentMetrics", list),
    CONDITIONS: ("v2beta1", "HorizontalPodAutoscalerStatus", "conditions", list),
    BEHAVIOR: ("v2beta2", "HorizontalPodAutoscalerSpec", "behavior", dict),
}
"""Annotations by which v1 has what only newer versions have: the definition, its field, and what it is written as."""


def _read_annotations(annotations: dict[str, str]) -> None:
    """Check that annotations hold what a newer version can read; raises DecodeError."""
    for key in annotations.keys() & _HELD.keys():
        version, definition, name, wanted = _HELD[key]
        try:
            value = msgspec.json.decode(annotations[key], type=wanted | None)
            schemas.normalise(f"io.k8s.api.autoscaling.{version}.{definition}", {name: value})
        except (msgspec.DecodeError, schemas.ShapeError, UnicodeEncodeError) as error:
            raise DecodeError(f"cannot read annotation {key}: {error}") from None


def _without_policies(obj: Any) -> list[str]:
    """The directions of scaling for which a body has an empty list of policies, which is no missing one."""
    behavior = _at(obj, "spec", "behavior")
    return [name for name in ("scaleUp", "scaleDown") if _at(behavior, name, "policies") == []]


def _at(value: Any, *names: str) -> Any:
    """Return what is at a path of an object of any shape; None when there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _cpu(percent: int) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


_ALL_AT_ONCE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_BEHAVIOR = Defaults(
    {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_AT_ONCE],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [_ALL_AT_ONCE]},
    }
)


_CONTAINER_RESOURCE = inside("containerResource", inside("name", resource_name), text("container", names.label))
_TOLERANCE = inside("tolerance", amount)
_MEASURED = (
    inside(
        "spec",
        metric_checks.scales_to_zero,
        each("metrics", metric_checks.metric, _CONTAINER_RESOURCE),
        inside("behavior", *metric_checks.BEHAVIOR, inside("scaleUp", _TOLERANCE), inside("scaleDown", _TOLERANCE)),
    ),
)
_OF_THE_CORE = ("Pod", "ReplicationController")


def _group_of_target(spec: Manifest) -> str:
    """Return what is wrong with the version of the API in which the target of scaling is looked for."""
    reference = spec.get("scaleTargetRef") or {}
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    group = version.rpartition("/")[0]
    return "" if group or reference.get("kind") in _OF_THE_CORE else "apiVersion must specify API group"


class Autoscaler(BuiltinKind):
    """autoscaling HorizontalPodAutoscaler in v1 and v2."""

    spec_rules = metric_checks.sizes(need="")
    status_rules = counts(("currentReplicas", "desiredReplicas"))

    def decode(self, obj: Manifest, raw: bytes | None = None) -> list[str]:
        """Read a body; what its annotations hold of a newer version is read too."""
        empty = _without_policies(obj)
        unknown = super().decode(obj, raw)
        for direction in empty:
            obj["spec"]["behavior"][direction]["policies"] = []
        if self.resource.version == "v1":
            _read_annotations(obj["metadata"].get("annotations") or {})
        return unknown

    def default(self, obj: Manifest) -> None:
        """Fill in the least number of replicas and the processor target."""
        spec = obj["spec"]
        spec.setdefault("minReplicas", 1)
        if self.resource.version == "v1":
            if METRICS not in (obj["metadata"].get("annotations") or {}):
                spec.setdefault("targetCPUUtilizationPercentage", CPU_PERCENT)
        elif not spec.get("metrics"):
            spec["metrics"] = [_cpu(CPU_PERCENT)]
        if (behavior := spec.get("behavior")) is not None:
            _BEHAVIOR(behavior)

    def prepare_create(self, obj: Manifest) -> None:
        """Start with an empty status."""
        super().prepare_create(obj)
        if self.resource.version != "v1":
            obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the v2 form."""
        return _from_v1(obj) if self.resource.version == "v1" else obj

    def from_store(self, obj: Manifest) -> Manifest:
        """Return this version's form of a stored v2 object."""
        return _to_v1(obj) if self.resource.version == "v1" else obj

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check limits, target and metrics."""
        # The older version is checked as what it is stored as, so its errors name those fields.
        return [*super().check(obj), *apply(_MEASURED, self.to_store(obj))]

    def validate_create(self, obj: Manifest) -> list[FieldError]:
        """A new object names the group of its target."""
        return [*self.check(obj), *_group(obj)]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """So does an object that did before."""
        return [*super().check_update(new, old), *(() if _group_of_target(old.get("spec") or {}) else _group(new))]


def _group(obj: Manifest) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problem = _group_of_target(spec)
    version = (spec.get("scaleTargetRef") or {}).get("apiVersion", "")
    return [invalid("spec.scaleTargetRef.apiVersion", version, problem)] if problem else []


def _percent_of(metric: Manifest) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    value: int | None = (resource.get("target") or {}).get("averageUtilization")
    return value


def _from_v1(obj: Manifest) -> Manifest:
    meta = dict(obj["metadata"])
    annotations = dict(meta.get("annotations") or {})
    spec = dict(obj.get("spec") or {})
    status = dict(obj.get("status") or {})
    metrics: list[Manifest] = []
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        metrics.append(_cpu(percent))
    metrics += [_metric_from_v1(item) for item in _load(annotations, METRICS, list) or () if isinstance(item, dict)]
    if behavior := _load(annotations, BEHAVIOR, dict):
        spec["behavior"] = behavior
    if metrics:
        spec["metrics"] = metrics
    current: list[Manifest] = []
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        current.append({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}})
    current += _load(annotations, CURRENT, list) or ()
    status["currentMetrics"] = current or None
    status["conditions"] = _load(annotations, CONDITIONS, list)
    return _assembled(obj, "autoscaling/v2", meta, annotations, spec, status)


def _to_v1(obj: Manifest) -> Manifest:
    meta = dict(obj["metadata"])
    annotations = dict(meta.get("annotations") or {})
    spec = dict(obj.get("spec") or {})
    status = dict(obj.get("status") or {})
    others: list[Manifest] = []
    for metric in spec.pop("metrics", None) or ():
        percent = _percent_of(metric)
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(_metric_to_v1(metric))
    _save(annotations, METRICS, others)
    _save(annotations, BEHAVIOR, spec.pop("behavior", None))
    rest: list[Manifest] = []
    for metric in status.pop("currentMetrics", None) or ():
        used = ((metric.get("resource") or {}).get("current") or {}).get("averageUtilization")
        if used is not None and (metric.get("resource") or {}).get("name") == "cpu":
            status["currentCPUUtilizationPercentage"] = used
        else:
            rest.append(metric)
    _save(annotations, CURRENT, rest)
    _save(annotations, CONDITIONS, status.pop("conditions", None))
    return _assembled(obj, "autoscaling/v1", meta, annotations, spec, status)


def _load(annotations: dict[str, str], key: str, wanted: type) -> Any:
    """Take a value out of annotations; None where it is missing or no such value."""
    try:
        return msgspec.json.decode(annotations.pop(key, "null"), type=wanted | None)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _save(annotations: dict[str, str], key: str, value: Any) -> None:
    if value:
        annotations[key] = msgspec.json.encode(value).decode()


def _assembled(
    obj: Manifest, api_version: str, meta: Manifest, annotations: dict[str, str], spec: Manifest, status: Manifest
) -> Manifest:
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    return {**obj, "apiVersion": api_version, "metadata": meta, "spec": spec, "status": status}


# (field of a metric in an annotation: kind and field of the v2 target)
_TARGETS = {
    "targetAverageUtilization": ("Utilization", "averageUtilization"),
    "targetAverageValue": ("AverageValue", "averageValue"),
    "averageValue": ("AverageValue", "averageValue"),
    "targetValue": ("Value", "value"),
}


def _metric_from_v1(metric: Manifest) -> Manifest:
    result = dict(metric)
    for name in metric_checks.SOURCES:
        source = metric.get(name)
        if source is None or (
            "target" in source and isinstance(source["target"], dict) and "kind" not in source["target"]
        ):
            continue
        body = dict(source)
        described = body.pop("target", None)
        target: Manifest = {}
        for field, (kind, inner) in _TARGETS.items():
            if field in body:
                target = {**target, "type": target.get("type", kind), inner: body.pop(field)}
        identity: Manifest = {}
        if "metricName" in body:
            identity["name"] = body.pop("metricName")
        for field in ("selector", "metricSelector"):
            if field in body:
                identity["selector"] = body.pop(field)
        if identity:
            body["metric"] = identity
        if described is not None:
            body["describedObject"] = described
        body["target"] = target
        result[name] = body
    return result


def _metric_to_v1(metric: Manifest) -> Manifest:
    result = dict(metric)
    for name in metric_checks.SOURCES:
        source = metric.get(name)
        if source is None:
            continue
        body = dict(source)
        target = body.pop("target", None) or {}
        identity = body.pop("metric", None) or {}
        if "name" in identity:
            body["metricName"] = identity["name"]
        if "selector" in identity:
            body["metricSelector" if name == "external" else "selector"] = identity["selector"]
        if "describedObject" in body:
            body["target"] = body.pop("describedObject")
        if "averageUtilization" in target:
            body["targetAverageUtilization"] = target["averageUtilization"]
        if "averageValue" in target:
            body["averageValue" if name == "object" else "targetAverageValue"] = target["averageValue"]
        if "value" in target:
            body["targetValue"] = target["value"]
        result[name] = body
    return result

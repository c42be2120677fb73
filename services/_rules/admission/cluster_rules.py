"""Defaults and rules of Cluster and its resource models, as its own API server applies them.

Source: docs/sources.md#admission.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.common.answer import Context
from services._rules.kubernetes import quantity
from services._rules.kubernetes.patch.json_patch import without_nulls
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    apply,
    choice,
    distinct,
    each,
    formed,
    inside,
    needed,
    refused,
    text,
)

Part = Mapping[str, Any]

_BOUNDS: Final = ("min", "max")
_PROXY_SCHEMES: Final = ("http", "https", "socks5")
_MAX: Final = str(2**63 - 1)
# Upper bounds of the grades; the last grade is open.
_CPU: Final = ("1", "2", "4", "8", "16", "32", "64", "128")
_MEMORY: Final = ("4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti")


def prepare(obj: Manifest, old: Manifest | None, context: Context) -> Manifest:
    """What is stored of a request before its rules are checked: status, generation, resource models."""
    spec, meta = dict(obj.get("spec") or {}), dict(obj.get("metadata") or {})
    models = spec.get("resourceModels")
    if context.resource_models and (models or old is None):
        spec["resourceModels"] = _normalized(models) if models else _default_models()
    if old is None:
        return obj | {"metadata": meta | {"generation": 1}, "spec": spec, "status": {}}
    before = old.get("metadata") or {}
    generation = before.get("generation") or 0
    # The request is compared as it came: what is filled in each time is no change.
    if _plain(obj.get("spec") or {}) != _plain(old.get("spec") or {}):
        generation += 1
    if generation:
        meta["generation"] = generation
    for field in ("uid", "creationTimestamp"):
        if not meta.get(field) and before.get(field):
            meta[field] = before[field]
    return obj | {"metadata": meta, "spec": spec, "status": old.get("status") or {}}


def finish(obj: Manifest, now: str) -> Manifest:
    """What is filled in once the rules are met: times of taints, and the list of zones."""
    spec = dict(obj.get("spec") or {})
    if spec.get("taints"):
        spec["taints"] = [
            taint | {"timeAdded": now} if taint.get("effect") == "NoExecute" and not taint.get("timeAdded") else taint
            for taint in spec["taints"]
        ]
    if spec.get("zone") and not spec.get("zones"):
        spec["zones"] = [spec.pop("zone")]
    return obj | {"spec": spec}


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with a cluster."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    found = metadata.check_change(meta, old.get("metadata") or {}) if old is not None else []
    found += metadata.check_create(meta, formats.cluster_name, namespaced=False)
    if not spec.get("syncMode"):
        found.append(required("spec.syncMode"))
    found += apply(_SPEC, without_nulls(spec), "spec")
    return found + _models(spec.get("resourceModels") or [])


def _endpoint(endpoint: str) -> list[str]:
    if not endpoint:
        return []
    url = formats.Url(endpoint)
    problems = [url.error] if url.error else []
    if not url.error and not url.host:
        problems.append("must have a host, as in https://host:port")
    parts = (("user information", url.user), ("a query", url.query), ("a fragment", url.fragment))
    return problems + [f"must not have {what}" for what, found in parts if found]


def _proxy(proxy: str) -> list[str]:
    url = formats.Url(proxy)
    problem = url.error or ("" if url.scheme in _PROXY_SCHEMES else "must start with http://, https:// or socks5://")
    return [problem] if proxy and problem else []


def _same_taint(taint: Part, path: str) -> FieldError:
    return duplicate(path, f"{taint.get('key') or ''}:{taint.get('effect') or ''}")


_REFERENCE: Final = needed("namespace", "name")
_SPEC: Final = (
    choice("syncMode", ("Pull", "Push"), blank=True),
    text("apiEndpoint", _endpoint),
    inside("secretRef", _REFERENCE),
    inside("impersonatorSecretRef", _REFERENCE),
    text("proxyURL", _proxy),
    *(text(name, names.label_value) for name in ("provider", "region", "zone")),
    each("zones", formed(names.label_value)),
    refused(
        "zone", "cannot be set together with zones: remove it", lambda spec: spec.get("zone") and spec.get("zones")
    ),
    each(
        "taints",
        text("key", names.qualified, blank=True),
        text("value", names.label_value),
        choice("effect", ("NoSchedule", "NoExecute"), blank=True),
        distinct(lambda taint: (taint.get("key") or "", taint.get("effect") or ""), _same_taint),
    ),
)


def _models(models: list[Part]) -> list[FieldError]:
    problem = _models_problem(models) if models else ""
    return [invalid("spec.resourceModels", models, problem)] if problem else []


def _plain(value: Any) -> Any:
    """Without empty members, which mean the same as absent ones, and with amounts in canonical form."""
    if isinstance(value, dict):
        return {
            key: plain
            for key, item in value.items()
            if (plain := str(quantity.parse(item)) if key in _BOUNDS else _plain(item)) not in (None, "", False, {}, [])
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _default_models() -> list[dict[str, Any]]:
    """The grades of a cluster whose owner names none."""
    return [
        {
            "grade": grade,
            "ranges": [
                {"name": name, "min": low, "max": high} for name, low, high in (("cpu", *cpu), ("memory", *memory))
            ],
        }
        for grade, (cpu, memory) in enumerate(zip(_intervals(_CPU), _intervals(_MEMORY), strict=True))
    ]


def _normalized(models: Sequence[Part]) -> list[dict[str, Any]]:
    """Sorted by grade, the first starting at nothing and the last open above."""
    result = [dict(item) for item in sorted(models, key=lambda item: item.get("grade") or 0)]
    result[0]["ranges"] = [item | {"min": "0"} for item in result[0].get("ranges") or ()]
    result[-1]["ranges"] = [item | {"max": _MAX} for item in result[-1].get("ranges") or ()]
    return result


def _models_problem(models: Sequence[Part]) -> str:
    """The first thing that is wrong with normalized grades, or nothing."""
    names: list[str] = []
    for position, model in enumerate(models):
        ranges = model.get("ranges") or []
        if position and model.get("grade", 0) == models[position - 1].get("grade", 0):
            return f"grade {model.get('grade', 0)} appears twice: number each once"
        found = [item.get("name") or "" for item in ranges]
        if position and found != names:
            return "every grade must have the same resources in the same order"
        names = found
        if wrong := _wrong_ranges(models, position):
            return wrong
    return ""


def _wrong_ranges(models: Sequence[Part], position: int) -> str:
    ranges = models[position].get("ranges") or []
    before = models[position - 1].get("ranges") or [] if position else []
    for number, item in enumerate(ranges):
        name, low, high = item.get("name") or "", quantity.parse(item.get("min")), quantity.parse(item.get("max"))
        if high.nano <= low.nano:
            return f"the upper bound of {name} must be above the lower one"
        if position == 0 and low.nano != 0:
            return f"the first grade of {name} must start at 0"
        if position and not _same(item.get("min"), before[number].get("max")):
            return f"each grade of {name} must start where the one before ends, written the same way"
        if position == len(models) - 1 and str(high) != _MAX:
            return f"the last grade of {name} must be open above"
    return ""


def _same(low: Any, high: Any) -> bool:
    """Whether two bounds are the same amount written the same way; Kubernetes compares them with their spelling."""
    first, second = quantity.parse(low), quantity.parse(high)
    return first == second and str(low).strip() == str(high).strip() and first.format == second.format


def _intervals(bounds: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(("0", *bounds), (*bounds, _MAX), strict=True))

"""Defaults and rules of Cluster, as its own API server applies them (reference 01 §4.4)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission import resource_models
from services._rules.admission.common import value_formats as formats
from services._rules.admission.common.answer import Context
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    each,
    invalid,
    not_supported,
    required,
)

Part = Mapping[str, Any]

_MODES: Final = ("Pull", "Push")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_BOUNDS: Final = ("min", "max")
_PROXY_SCHEMES: Final = ("http", "https", "socks5")


def prepare(obj: Manifest, old: Manifest | None, context: Context) -> Manifest:
    """What is stored of a request before its rules are checked: status, generation, resource models."""
    spec, meta = dict(obj.get("spec") or {}), dict(obj.get("metadata") or {})
    models = spec.get("resourceModels")
    if context.resource_models and (models or old is None):
        spec["resourceModels"] = resource_models.normalized(models) if models else resource_models.default_models()
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
    mode = spec.get("syncMode") or ""
    if not mode:
        found.append(required("spec.syncMode"))
    if mode not in _MODES:
        found.append(not_supported("spec.syncMode", mode, _MODES))
    found += _endpoint(spec.get("apiEndpoint") or "")
    for field in ("secretRef", "impersonatorSecretRef"):
        reference = spec.get(field)
        if reference is not None:
            found += [required(f"spec.{field}.{name}") for name in ("namespace", "name") if not reference.get(name)]
    found += _proxy(spec.get("proxyURL") or "")
    return found + _topology(spec) + _taints(spec.get("taints") or []) + _models(spec.get("resourceModels") or [])


def _endpoint(endpoint: str) -> list[FieldError]:
    if not endpoint:
        return []
    url = formats.Url(endpoint)
    problems = [url.error] if url.error else []
    if not url.error and not url.host:
        problems.append("must have a host, as in https://host:port")
    for what, text in (("user information", url.user), ("a query", url.query), ("a fragment", url.fragment)):
        if text:
            problems.append(f"must not have {what}")
    return each("spec.apiEndpoint", endpoint, problems)


def _proxy(proxy: str) -> list[FieldError]:
    if not proxy:
        return []
    url = formats.Url(proxy)
    problem = url.error or ("" if url.scheme in _PROXY_SCHEMES else "must start with http://, https:// or socks5://")
    return [invalid("spec.proxyURL", proxy, problem)] if problem else []


def _topology(spec: Part) -> list[FieldError]:
    found: list[FieldError] = []
    for field in ("provider", "region", "zone"):
        value = spec.get(field) or ""
        found += each(f"spec.{field}", value, names.label_value(value))
    for position, zone in enumerate(spec.get("zones") or ()):
        found += each(f"spec.zones[{position}]", zone or "", names.label_value(zone or ""))
    if spec.get("zone") and spec.get("zones"):
        found.append(invalid("spec.zone", spec["zone"], "cannot be set together with zones"))
    return found


def _taints(taints: list[Part]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        place = f"spec.taints[{position}]"
        found += each(f"{place}.key", key, names.qualified(key))
        found += each(f"{place}.value", value, names.label_value(value))
        if effect not in _EFFECTS:
            found.append(not_supported(f"{place}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            found.append(duplicate(place, f"{key}:{effect}"))
        seen.add((key, effect))
    return found


def _models(models: list[Part]) -> list[FieldError]:
    problem = resource_models.problem(models) if models else ""
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

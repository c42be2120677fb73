"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

import uuid

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    go_strings,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    each,
    immutable,
    inside,
    lookup,
    needed,
    text,
    unique,
    unwanted,
)
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.resources import amount, not_standard, overcommits, resource_name

SCOPES = ("BestEffort", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating", "CrossNamespacePodAffinity")
COUNTED = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
_PREFIXES = ("", "requests.", "limits.")
STANDARD = (
    *COUNTED,
    "requests.storage",
    *(f"{prefix}{name}" for prefix in _PREFIXES for name in ("cpu", "memory", "ephemeral-storage")),
)
_NOT_STANDARD = "must be a standard resource type or fully qualified"
_OF_PODS = ("pods", *(f"{prefix}{name}" for prefix in _PREFIXES for name in ("cpu", "memory")))


def quota_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a limited resource."""
    if name in STANDARD:
        return []
    found = [invalid(field, name, text) for text in names.qualified(name)]
    return found or (not_standard(name, field, "quota") if "/" not in name and "hugepages-" not in name else [])


_OPPOSITE = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_PLAIN = tuple(scope for pair in _OPPOSITE for scope in pair)
_EXIST = (
    "must be 'Exist' only operator when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort and ResourceQuotaScopeNotBestEffort"
)
_SOME_VALUE = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
_NO_VALUE = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"


def _go_scopes(scopes: list[str]) -> Raw:
    shown = ", ".join(f'"{scope}"' for scope in scopes)
    return Raw(f"[]core.ResourceQuotaScope{{{shown}}}" if scopes else "[]core.ResourceQuotaScope(nil)")


def _foreign(spec: Manifest) -> dict[str, int]:
    """How many of the limited resources each scope does not apply to; an unknown one applies to all."""
    limited = [name for name in spec.get("hard") or () if name in STANDARD]
    others = sum(name not in _OF_PODS for name in limited)
    return {**dict.fromkeys(SCOPES, others), "BestEffort": sum(name != "pods" for name in limited)}


def _conflicts(scopes: list[str], field: str, shown: Raw) -> list[FieldError]:
    return [invalid(field, shown, "conflicting scopes") for pair in _OPPOSITE if {*pair} <= {*scopes}]


def _scopes(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the scopes: unknown ones, resources they do not apply to, opposite ones."""
    scopes, field, found = spec.get("scopes") or [], f"{path}.scopes", []
    shown, foreign = _go_scopes(scopes), _foreign(spec)
    for scope in scopes:
        if scope not in SCOPES:
            found.append(invalid(field, shown, "unsupported scope"))
        found += [invalid(field, shown, "unsupported scope applied to resource")] * foreign.get(scope, 0)
    return found + _conflicts(scopes, field, shown)


def _scope_selector(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the selector of scopes; its errors name the list of requirements."""
    selector, field = spec.get("scopeSelector") or {}, f"{path}.scopeSelector.matchExpressions"
    items, found, foreign = selector.get("matchExpressions") or [], list[FieldError](), _foreign(spec)
    for item in items:
        scope, operator, values = item.get("scopeName", ""), item.get("operator", ""), item.get("values") or []
        if scope not in SCOPES:
            found.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        found += [invalid(field, selector, "unsupported scope applied to resource")] * foreign.get(scope, 0)
        if scope in _PLAIN and operator != "Exists":
            found.append(invalid(f"{field}.operator", operator, _EXIST))
        if operator in ("In", "NotIn"):
            found += [] if values else [required(f"{field}.values", _SOME_VALUE)]
        elif operator in ("Exists", "DoesNotExist"):
            found += [invalid(f"{field}.values", go_strings(values), _NO_VALUE)] if values else []
        else:
            found.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return found + _conflicts(
        [item.get("scopeName", "") for item in items], field, _go_scopes(spec.get("scopes") or [])
    )


def counted_amount(name: str, value: str, field: str) -> list[FieldError]:
    """Return what is wrong with an amount: below zero, or a part of something that is counted."""
    found = amount(value, field)
    if name in COUNTED and quantity.parse(value).nano % quantity.NANO:
        found.append(invalid(field, str(value), "must be an integer"))
    return found


def _amounts(values: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name, value in values.items():
        found += quota_name(name, f"{field}[{name}]") + counted_amount(name, value, f"{field}[{name}]")
    return found


class ResourceQuota(BuiltinKind):
    """core/v1 ResourceQuota."""

    spec_rules = (inside("hard", _amounts), _scopes, _scope_selector)
    status_rules = (inside("hard", _amounts), inside("used", _amounts))

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Scopes may not change."""
        after, before = (lookup(part, "spec.scopes") or [] for part in (new, old))
        return super().check_update(new, old) + immutable("spec.scopes", {*after}, {*before}, _go_scopes(after))


_LIMITED = ("Container", "Pod", "PersistentVolumeClaim")
# Pairs of which the first may not be above the second, with what they are called, and which of the two the error
# is about: the field, and the value that is shown.
_ORDERED = (
    ("min", "min value", "max", "max value", "min", "min"),
    ("min", "min value", "defaultRequest", "default request value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default request value", "max", "max value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default request value", "default", "default limit value", "defaultRequest", "defaultRequest"),
    ("min", "min value", "default", "default value", "default", "min"),
    ("default", "default value", "max", "max value", "default", "max"),
)
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_OF_CONTAINERS = ("Container", "Pod")


def _resource_names(item: Manifest, field: str) -> Errors:
    """What is wrong with the names of resources: containers have their own; a Pod has no defaults to check."""
    kind = item.get("type", "")
    for part in _AMOUNTS:
        if kind == "Pod" and part.startswith("default"):
            continue
        for name in item.get(part) or ():
            place = f"{field}.{part}[{name}]"
            if kind in _OF_CONTAINERS:
                yield from resource_name(name, place)
            elif name not in (*STANDARD, "storage"):
                texts = names.qualified(name) or ([] if "/" in name else [_NOT_STANDARD])
                yield from [invalid(place, name, text) for text in texts]


def _equal(one: str, other: str) -> bool:
    return quantity.parse(one) == quantity.parse(other)


def _limit(item: Manifest, field: str) -> Errors:
    parts: dict[str, Manifest] = {name: item.get(name) or {} for name in _AMOUNTS}
    if item.get("type") == "Pod":
        parts |= {"default": {}, "defaultRequest": {}}
    for name in sorted({key for part in parts.values() for key in part}):
        for low, low_text, high, high_text, place, shown in _ORDERED:
            small, large = parts[low].get(name), parts[high].get(name)
            if small is not None and large is not None and quantity.parse(large) < quantity.parse(small):
                text = f"{low_text} {small} is greater than {high_text} {large}"
                yield invalid(f"{field}.{place}[{name}]", str(parts[shown][name]), text)
        usual, asked = parts["default"].get(name), parts["defaultRequest"].get(name)
        if usual is not None and asked is not None and not overcommits(name) and not _equal(usual, asked):
            text = f"default value {usual} must equal to defaultRequest value {asked} in {name}"
            yield invalid(f"{field}.defaultRequest[{name}]", str(asked), text)
        place = f"{field}.maxLimitRequestRatio[{name}]"
        ratio, least, most = (parts[part].get(name) for part in ("maxLimitRequestRatio", "min", "max"))
        if ratio is None:
            continue
        number = quantity.parse(ratio).nano
        if number < quantity.NANO:
            yield invalid(place, str(ratio), f"ratio {ratio} is less than 1")
        if least is None or most is None:
            continue
        bottom, top = quantity.parse(least).nano, quantity.parse(most).nano
        if bottom and number * bottom > top * quantity.NANO:
            yield invalid(place, str(ratio), f"ratio {ratio} is greater than max/min = {top / bottom:f}")


def _storage_without_limit(item: Manifest) -> bool:
    limits = (item.get(name) or {} for name in ("min", "max"))
    return item.get("type") == "PersistentVolumeClaim" and not any("storage" in part for part in limits)


def _limit_type(kind: str) -> list[str]:
    if texts := names.qualified(kind):
        return texts
    return [] if kind in _LIMITED or "/" in kind else ["must be a standard limit type or fully qualified"]


_LIMIT: Rules = (
    text("type", _limit_type, blank=True),
    unique("type", blank=True),
    *(
        unwanted(name, "may not be specified when `type` is 'Pod'", lambda item: item.get("type") == "Pod")
        for name in ("default", "defaultRequest")
    ),
    needed(
        "limits",
        detail="either minimum or maximum storage value is required, but neither was provided",
        when=_storage_without_limit,
    ),
    _resource_names,
    _limit,
)


class LimitRange(BuiltinKind):
    """core/v1 LimitRange; one without a name gets one."""

    create_on_update = True
    spec_rules = (each("limits", *_LIMIT),)

    def prepare_create(self, obj: Manifest) -> None:
        """Name a LimitRange that has no name."""
        super().prepare_create(obj)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = str(uuid.uuid4())

    def default(self, obj: Manifest) -> None:
        """Fill in container defaults from the limits, and requests from the defaults and minima."""
        for item in obj.get("spec", {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            default = dict(item.get("default") or {})
            request = dict(item.get("defaultRequest") or {})
            for name, value in (item.get("max") or {}).items():
                default.setdefault(name, value)
            for source in (default, item.get("min") or {}):
                for name, value in source.items():
                    request.setdefault(name, value)
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request

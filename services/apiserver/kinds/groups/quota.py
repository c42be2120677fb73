"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

import uuid

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    each,
    immutable,
    inside,
    lookup,
    needed,
    refused,
    unique,
    unwanted,
)
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.containers import amount, not_standard

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
_OF_PODS = ("pods", *(f"{prefix}{name}" for prefix in _PREFIXES for name in ("cpu", "memory")))


def quota_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a limited resource."""
    if name in STANDARD:
        return []
    found = [invalid(field, name, text) for text in names.qualified(name)]
    return found or (not_standard(name, field, "quota") if "/" not in name and "hugepages-" not in name else [])


def _scopes(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the scopes: unknown ones, resources they do not apply to, opposite ones."""
    scopes, field, found = spec.get("scopes") or [], f"{path}.scopes", []
    for scope in scopes:
        if scope not in SCOPES:
            found.append(invalid(field, scopes, "unsupported scope"))
            continue
        fitting = ("pods",) if scope == "BestEffort" else _OF_PODS
        foreign = [name for name in spec.get("hard") or () if name in STANDARD and name not in fitting]
        found += [invalid(field, scopes, "unsupported scope applied to resource") for _ in foreign]
    pairs = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
    return found + [invalid(field, scopes, "conflicting scopes") for pair in pairs if {*pair} <= {*scopes}]


def _amounts(values: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name, value in values.items():
        place = f"{field}[{name}]"
        found += quota_name(name, place) + amount(value, place)
        if name in COUNTED and quantity.parse(value).nano % quantity.NANO:
            found.append(invalid(place, str(value), "must be an integer"))
    return found


class ResourceQuota(BuiltinKind):
    """core/v1 ResourceQuota."""

    spec_rules = (inside("hard", _amounts), _scopes)
    status_rules = (inside("hard", _amounts), inside("used", _amounts))

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Scopes may not change."""
        scopes = [sorted(lookup(part, "spec.scopes") or ()) for part in (new, old)]
        return self.check(new) + immutable("spec.scopes", scopes[0], scopes[1])


_LIMITED = ("Container", "Pod", "PersistentVolumeClaim")
# Pairs of which the first may not be above the second, with what they are called.
_ORDERED = (
    ("min", "min value", "max", "max value"),
    ("min", "min value", "defaultRequest", "default request value"),
    ("defaultRequest", "default request value", "max", "max value"),
    ("defaultRequest", "default request value", "default", "default value"),
    ("min", "min value", "default", "default value"),
    ("default", "default value", "max", "max value"),
)


def _limit(item: Manifest, field: str) -> Errors:
    parts: dict[str, Manifest] = {
        name: item.get(name) or {} for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    for name in sorted({key for part in parts.values() for key in part}):
        for low, low_text, high, high_text in _ORDERED:
            small, large = parts[low].get(name), parts[high].get(name)
            if small is not None and large is not None and quantity.parse(large) < quantity.parse(small):
                text = f"{low_text} {small} is greater than {high_text} {large}"
                yield invalid(f"{field}.{low}[{name}]", str(small), text)
        ratio = parts["maxLimitRequestRatio"].get(name)
        if ratio is not None and quantity.parse(ratio).nano < quantity.NANO:
            text = f"ratio {ratio} is less than 1"
            yield invalid(f"{field}.maxLimitRequestRatio[{name}]", str(ratio), text)


def _storage_without_limit(item: Manifest) -> bool:
    limits = (item.get(name) or {} for name in ("min", "max"))
    return item.get("type") == "PersistentVolumeClaim" and not any("storage" in part for part in limits)


_LIMIT: Rules = (
    refused(
        "type",
        "must be a standard limit type or fully qualified",
        lambda item: (kind := item.get("type", "")) not in _LIMITED and "/" not in kind,
        shown="",
    ),
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
            for source in (item.get("default") or {}, item.get("min") or {}, default):
                for name, value in source.items():
                    request.setdefault(name, value)
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request

"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

import uuid

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, forbidden, invalid, required
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import quantities as quantity
from services.apiserver.kinds.checks.containers import amount

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
STANDARD = (
    *COUNTED,
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
)
_OF_PODS = ("pods", *(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory")))


def quota_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a limited resource."""
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if not found and "/" not in name and name not in STANDARD and "hugepages-" not in name:
        return [
            invalid(field, name, "must be a standard resource type or fully qualified"),
            invalid(field, name, "must be a standard resource for quota"),
        ]
    return found


class ResourceQuota(BuiltinKind):
    """core/v1 ResourceQuota."""

    has_status = True

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check names, amounts and scopes."""
        spec = obj.get("spec") or {}
        found = _amounts(spec.get("hard") or {}, "spec.hard")
        return found + _scopes(spec)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Scopes may not change."""
        found = self.check(new)
        scopes = [sorted((part.get("spec") or {}).get("scopes") or ()) for part in (new, old)]
        return found + immutable("spec.scopes", scopes[0], scopes[1])

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Check names and amounts."""
        status = new.get("status") or {}
        return [*_amounts(status.get("hard") or {}, "status.hard"), *_amounts(status.get("used") or {}, "status.used")]


def _scopes(spec: Manifest) -> list[FieldError]:
    """Return what is wrong with the scopes: unknown ones, resources they do not apply to, opposite ones."""
    scopes = spec.get("scopes") or []
    found: list[FieldError] = []
    for scope in scopes:
        if scope not in SCOPES:
            found.append(invalid("spec.scopes", scopes, "unsupported scope"))
        fitting = ("pods",) if scope == "BestEffort" else _OF_PODS
        foreign = [name for name in spec.get("hard") or () if name in STANDARD and name not in fitting]
        if scope in SCOPES:
            found += [invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in foreign]
    pairs = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
    return found + [invalid("spec.scopes", scopes, "conflicting scopes") for pair in pairs if {*pair} <= {*scopes}]


def _amounts(values: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name, value in values.items():
        place = f"{field}[{name}]"
        found += quota_name(name, place)
        found += amount(value, place)
        if name in COUNTED and quantity.value_of(value) % 1:
            found.append(invalid(place, str(value), "must be an integer"))
    return found


class LimitRange(BuiltinKind):
    """core/v1 LimitRange; one without a name gets one."""

    create_on_update = True

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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check that every limit's numbers are in order."""
        found: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            found += _limit(item, f"spec.limits[{index}]", seen)
        return found


def _limit(item: Manifest, field: str, seen: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    kind = item.get("type", "")
    if kind not in ("Container", "Pod", "PersistentVolumeClaim") and "/" not in kind:
        found.append(invalid(f"{field}.type", kind, "must be a standard limit type or fully qualified"))
    if kind in seen:
        found.append(duplicate(f"{field}.type", kind))
    seen.add(kind)
    parts: dict[str, Manifest] = {
        name: item.get(name) or {} for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    if kind == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        found += [forbidden(f"{field}.{name}", text) for name in ("default", "defaultRequest") if parts[name]]
    if kind == "PersistentVolumeClaim" and "storage" not in parts["min"] and "storage" not in parts["max"]:
        found.append(
            required(f"{field}.limits", "either minimum or maximum storage value is required, but neither was provided")
        )
    ordered = (
        ("min", "max", "min"),
        ("min", "defaultRequest", "min"),
        ("defaultRequest", "max", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest"),
        ("min", "default", "min"),
        ("default", "max", "default"),
    )
    texts = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    for name in sorted({key for part in parts.values() for key in part}):
        for low, high, _ in ordered:
            small, large = parts[low].get(name), parts[high].get(name)
            if small is not None and large is not None and quantity.value_of(small) > quantity.value_of(large):
                text = f"{texts[low]} {small} is greater than {texts[high]} {large}"
                found.append(invalid(f"{field}.{low}[{name}]", str(small), text))
        ratio = parts["maxLimitRequestRatio"].get(name)
        if ratio is not None and quantity.value_of(ratio) < 1:
            text = f"ratio {ratio} is less than 1"
            found.append(invalid(f"{field}.maxLimitRequestRatio[{name}]", str(ratio), text))
    return found

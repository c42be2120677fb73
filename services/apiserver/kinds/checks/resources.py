"""Checks of the names and amounts of resources that containers ask for."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, forbidden, invalid, required
from services._rules.kubernetes.validation.field_rules import NOT_NEGATIVE

NATIVE: Final = ("cpu", "memory", "storage", "ephemeral-storage")
_OF_CONTAINERS: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTED: Final = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
STANDARD: Final = frozenset(
    (*NATIVE, *_COUNTED, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS))
)
"""Names without a domain that Kubernetes knows as those of resources."""
_HUGE: Final = "hugepages-"
_REQUESTS: Final = "requests."
_UNKNOWN: Final = "must be a standard resource type or fully qualified"


def _is_own(name: str) -> bool:
    """Whether Kubernetes defines a resource itself."""
    return "/" not in name or "kubernetes.io/" in name


def overcommits(name: str) -> bool:
    """Return whether more of a resource may be promised than there is."""
    return _is_own(name) and not name.startswith(_HUGE)


def _is_extended(name: str) -> bool:
    return not _is_own(name) and not name.startswith(_REQUESTS) and not names.qualified(f"{_REQUESTS}{name}")


def _named(name: str, field: str) -> list[FieldError]:
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if found or "/" in name or name in STANDARD or name.startswith(_HUGE):
        return found
    return [invalid(field, name, _UNKNOWN)]


def resource_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a container's resource."""
    if name in _OF_CONTAINERS:
        return []
    found = _named(name, field)
    if "/" not in name:
        if not name.startswith(_HUGE):
            found.append(invalid(field, name, "must be a standard resource for containers"))
    elif not _is_own(name) and not _is_extended(name):
        found.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return found


def not_standard(name: str, field: str, users: str) -> list[FieldError]:
    """Return the errors for the name of a resource that is neither known nor qualified."""
    return [invalid(field, name, text) for text in (_UNKNOWN, f"must be a standard resource for {users}")]


def amount(value: str, field: str) -> list[FieldError]:
    """Return an error when a quantity is below zero."""
    return [] if quantity.parse(value).nano >= 0 else [invalid(field, str(value), NOT_NEGATIVE)]


def amounts(values: Manifest, field: str) -> Errors:
    """Return what is wrong with what a pod takes beside its containers, which is checked as limits."""
    return required_resources({"limits": values}, field)


def _resource(name: str, value: str, field: str) -> list[FieldError]:
    found = resource_name(name, field) + amount(value, field)
    if name not in _OF_CONTAINERS and (name in _COUNTED or _is_extended(name)) and _has_fraction(value):
        found.append(invalid(field, str(value), "must be an integer"))
    return found


def _has_fraction(value: str) -> bool:
    return quantity.parse(value).milli_value() % 1000 != 0


def required_resources(value: Manifest, field: str) -> Errors:
    """Yield what is wrong with the requests and limits of a container."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name in limits:
        yield from _resource(name, limits[name], f"{field}.limits[{name}]")
    for name in requests:
        yield from _resource(name, requests[name], f"{field}.requests[{name}]")
        fixed = not overcommits(name)
        if name in limits:
            wanted, limit = quantity.parse(requests[name]), quantity.parse(limits[name])
            if wanted != limit and fixed:
                yield invalid(f"{field}.requests", requests[name], f"must be equal to {name} limit")
            elif limit < wanted:
                yield invalid(f"{field}.requests", requests[name], f"must be less than or equal to {name} limit")
        elif fixed:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    named = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        yield forbidden(field, "HugePages require cpu or memory")

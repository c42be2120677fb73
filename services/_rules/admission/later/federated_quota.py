"""Rules of FederatedResourceQuota and ClusterTaintPolicy (reference 01 §4.3)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.kubernetes import quantity
from services._rules.kubernetes.quantity import NANO, Quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, each, forbidden, invalid

Part = Mapping[str, Any]

_COUNTED: Final = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_MEASURED: Final = frozenset(
    {
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
    }
)
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_LONGEST_NAME: Final = 63


def validate_quota(obj: Manifest) -> list[FieldError]:
    """What is wrong with a FederatedResourceQuota."""
    name, spec, status = (obj.get("metadata") or {}).get("name") or "", obj.get("spec") or {}, obj.get("status") or {}
    found: list[FieldError] = []
    if len(name.encode()) > _LONGEST_NAME:
        found.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    overall = _amounts(spec.get("overall"), "spec.overall", found)
    assigned: dict[str, int] = {}
    for position, item in enumerate(spec.get("staticAssignments") or ()):
        place = f"spec.staticAssignments[{position}]"
        cluster = item.get("clusterName") or ""
        found += each(f"{place}.clusterName", cluster, formats.cluster_name(cluster))
        for resource, amount in _amounts(item.get("hard"), f"{place}.hard", found).items():
            assigned[resource] = assigned.get(resource, 0) + amount.nano
            if resource not in overall:
                found.append(invalid(f"{place}.hard[{resource}]", resource, "is not limited in overall"))
    for resource, limit in overall.items():
        if assigned.get(resource, 0) > limit.nano:
            found.append(invalid(f"spec.overall[{resource}]", str(limit), "is less than the sum of the assignments"))
    for field in ("overall", "overallUsed"):
        _amounts(status.get(field), f"status.{field}", found)
    for position, item in enumerate(status.get("aggregatedStatus") or ()):
        for field in ("hard", "used"):
            _amounts(item.get(field), f"status.aggregatedStatus[{position}].{field}", found)
    return found


def validate_taint_policy(obj: Manifest, allow_no_execute: bool) -> list[FieldError]:
    """What is wrong with a ClusterTaintPolicy."""
    found: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        place = f"spec.taints[{position}]"
        if effect == "NoExecute" and not allow_no_execute:
            found.append(forbidden(place, "NoExecute taints have to be enabled by an administrator"))
        if (key, effect) in seen:
            found.append(duplicate(place, f"{key}:{effect}"))
        seen.add((key, effect))
    return found


def _amounts(resources: Part | None, field: str, found: list[FieldError]) -> dict[str, Quantity]:
    """The amounts by resource; what is wrong with names and amounts is added to `found`."""
    amounts: dict[str, Quantity] = {}
    for resource, text in (resources or {}).items():
        place = f"{field}[{resource}]"
        found += each(place, resource, _resource_name(resource))
        amount = amounts[resource] = quantity.parse(text)
        if amount.nano < 0:
            found.append(invalid(place, str(amount), "must be greater than or equal to 0"))
        if amount.nano % NANO and (resource in _COUNTED or is_extended(resource)):
            found.append(invalid(place, str(amount), "must be a whole number"))
    return amounts


def is_extended(resource: str) -> bool:
    """Whether a resource is a countable one that some vendor defines."""
    native = "/" not in resource or "kubernetes.io/" in resource
    return not native and not resource.startswith("requests.") and not names.qualified(f"requests.{resource}")


def _resource_name(resource: str) -> list[str]:
    problems = names.qualified(resource)
    standard = resource in _COUNTED or resource in _MEASURED or resource.startswith(_HUGE_PAGES)
    if not problems and "/" not in resource and not standard:
        problems = ["must be a standard quota resource or have a domain before its name"]
    return problems

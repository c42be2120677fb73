"""Rules of FederatedResourceQuota and ClusterTaintPolicy, and what a quota lets bindings use.

Source: docs/sources.md#admission, #quota.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.common.answer import Denied
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import NANO, Quantity
from services._rules.kubernetes.resource_quota import COUNTED, PLAIN
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, each, forbidden, invalid
from services._rules.quota.binding_usage import resource_usage
from services._rules.quota.enforcement import is_supported

Part = Mapping[str, Any]

_COUNTED: Final = COUNTED | {"services.nodeports", "services.loadbalancers"}
_MEASURED: Final = {f"{of}{name}" for of in ("", "requests.", "limits.") for name in PLAIN} | {"requests.storage"}
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_LONGEST_NAME: Final = 63
_QUOTA_EXCEEDED: Final = "QuotaExceeded"


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
                found.append(
                    invalid(
                        f"{place}.hard[{resource}]",
                        resource,
                        "is not limited in spec.overall: add it there, or remove it here",
                    )
                )
    for resource, limit in overall.items():
        if assigned.get(resource, 0) > limit.nano:
            found.append(
                invalid(
                    f"spec.overall[{resource}]",
                    str(limit),
                    "is less than the sum of the assignments: raise it, or lower them",
                )
            )
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
            found.append(
                forbidden(
                    place,
                    "effect NoExecute evicts and is not enabled: use NoSchedule, or let an administrator enable it",
                )
            )
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


class QuotaUse(Struct, frozen=True):
    """What `status.overallUsed` of a quota becomes once the binding is admitted."""

    name: str
    overall_used: dict[str, str]


def check_quotas(binding: Part, old: Part | None, quotas: Iterable[Part]) -> Denied | tuple[QuotaUse, ...]:
    """Decide upon a new or changed ResourceBinding; the first quota that is exceeded refuses it.

    The answer otherwise names the quotas to write; where the use does not change there are none. Everything that a
    quota limits is checked, also what the binding does not change: above a limit that was lowered, only a change that
    brings the use below it passes. Raises quantity.QuantityError.
    """
    change = usage_change(binding, old)
    if not change:
        return ()
    uses: list[QuotaUse] = []
    for item in quotas:
        overall = (item.get("spec") or {}).get("overall") or {}
        own = {name: amount for name, amount in change.items() if name in overall}
        if not own:
            continue
        name = (item.get("metadata") or {}).get("name") or ""
        used = _sum((item.get("status") or {}).get("overallUsed") or {}, own)
        for resource, amount in used.items():
            if resource in overall and amount.nano > quantity.parse(overall[resource]).nano:
                message = (
                    f"FederatedResourceQuota {name} is exceeded: {resource} {amount} of {overall[resource]}; use fewer "
                    f"replicas or lower requests, or raise spec.overall[{resource}] of the quota"
                )
                return Denied("validating", 403, message, reason=_QUOTA_EXCEEDED)
        uses.append(QuotaUse(name, {resource: str(amount) for resource, amount in used.items()}))
    return tuple(uses)


def usage_change(binding: Part, old: Part | None) -> dict[str, Quantity]:
    """How much more a new or changed binding uses than before, by resource. Raises quantity.QuantityError."""
    after = resource_usage(binding.get("spec") or {})
    before = resource_usage((old.get("spec") or {}) if old is not None else {})
    change = {name: after.get(name, quantity.ZERO) - before.get(name, quantity.ZERO) for name in {**after, **before}}
    return {name: amount for name, amount in change.items() if not amount.is_zero()}


def _sum(used: Mapping[str, Any], change: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The use with a change added; what no quota can measure and what is not positive is left out."""
    total = {name: quantity.parse(text) for name, text in used.items()}
    add_to(total, change)
    return {name: amount for name, amount in total.items() if amount.nano > 0 and is_supported(name)}

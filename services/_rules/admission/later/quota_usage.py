"""Whether a binding stays within the FederatedResourceQuotas of its namespace (reference 01 §5.1)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from services._rules.admission.common.answer import Denied
from services._rules.admission.later.federated_quota import is_extended
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import Quantity
from services._rules.scheduling.division.usage import resource_usage

Part = Mapping[str, Any]

QUOTA_EXCEEDED: Final = "QuotaExceeded"
_STANDARD: Final = ("cpu", "memory", "pods", "ephemeral-storage")


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
    change = _change(binding.get("spec") or {}, (old.get("spec") or {}) if old is not None else {})
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
                message = f"FederatedResourceQuota {name} is exceeded: {resource} {amount} of {overall[resource]}"
                return Denied("validating", 403, message, reason=QUOTA_EXCEEDED)
        uses.append(QuotaUse(name, {resource: str(amount) for resource, amount in used.items()}))
    return tuple(uses)


def _change(new: Part, old: Part) -> dict[str, Quantity]:
    """How much more is used than before, by resource."""
    after, before = resource_usage(new), resource_usage(old)
    change = {name: after.get(name, quantity.ZERO) - before.get(name, quantity.ZERO) for name in {**after, **before}}
    return {name: amount for name, amount in change.items() if not amount.is_zero()}


def _sum(used: Mapping[str, Any], change: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The use with a change added; what no quota can measure and what is not positive is left out."""
    total = {name: quantity.parse(text) for name, text in used.items()}
    add_to(total, change)
    return {name: amount for name, amount in total.items() if amount.nano > 0 and _is_supported(name)}


def _is_supported(name: str) -> bool:
    return name in _STANDARD or name.startswith("hugepages-") or "kubernetes.io/" in name or is_extended(name)

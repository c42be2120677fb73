"""The estimate from the ResourceQuotas of a namespace (docs/sources.md#estimators)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.capacity.general_estimate import Assumed, Component, Demand, per_set
from services._rules.capacity.node_estimate import UNLIMITED, Estimate
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import is_extended_resource, node_units
from services._rules.kubernetes.quantity import Quantity
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, requirement

_REQUESTS: Final = "requests."
_PRIORITY_CLASS: Final = "PriorityClass"


def estimate_replicas(
    quotas: Sequence[Manifest],
    namespace: str,
    demand: Demand | None,
    priority_class: str = "",
    assumed: Sequence[Assumed] = (),
) -> Estimate:
    """Further replicas that the quotas of a namespace leave room for; negative where they are overdrawn."""
    if demand is None:
        return Estimate(UNLIMITED)
    answer = UNLIMITED
    for quota in _quotas_of(quotas, namespace):
        if _applies(quota, priority_class):
            free = _free_after(quota, namespace, assumed)
            answer = min(answer, _quotient(free, dict(demand.requests)))
    return Estimate(answer, unschedulable=answer == 0)


def estimate_components(
    quotas: Sequence[Manifest], namespace: str, components: Sequence[Component], assumed: Sequence[Assumed] = ()
) -> Estimate:
    """Complete sets of components that the quotas of a namespace leave room for."""
    if not namespace or not components:
        return Estimate(UNLIMITED)
    answer = UNLIMITED
    for quota in _quotas_of(quotas, namespace):
        counted = [item for item in components if _applies(quota, item.priority_class)]
        if counted:
            free = _free_after(quota, namespace, assumed)
            wanted = {
                name: amount
                for name, amount in per_set(counted).items()
                if name in ("cpu", "memory") or is_extended_resource(name)
            }
            answer = min(answer, _quotient(free, wanted))
    return Estimate(answer, unschedulable=answer == 0)


def _quotas_of(quotas: Sequence[Manifest], namespace: str) -> list[Manifest]:
    return [item for item in quotas if (item.get("metadata") or {}).get("namespace", "") == namespace]


def _applies(quota: Manifest, priority_class: str) -> bool:
    """Whether a quota without scopes, or one of its scopes, covers pods of this priority class."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return not scopes or any(_covers(scope, priority_class) for scope in scopes)


def _covers(scope: Mapping[str, Any], priority_class: str) -> bool:
    if scope.get("scopeName") != _PRIORITY_CLASS:
        return False
    if scope.get("operator") == "Exists":
        return priority_class != ""
    try:
        condition = requirement(_PRIORITY_CLASS, scope.get("operator"), scope.get("values"))
    except LabelSelectorError:
        return False
    return Selector((condition,)).matches({_PRIORITY_CLASS: priority_class} if priority_class else {})


def _free_after(quota: Manifest, namespace: str, assumed: Sequence[Assumed]) -> dict[str, int] | None:
    """What the quota leaves after the assumed workloads that it covers, None where they already exceed it."""
    free = _free(quota)
    for workload in assumed:
        if workload.namespace != namespace:
            continue
        counted = [item for item in workload.components if _applies(quota, item.priority_class)]
        for name, amount in per_set(counted).items():
            if name in free:
                free[name] -= node_units(name, amount)
                if free[name] < 0:
                    return None
    return free


def _free(quota: Manifest) -> dict[str, int]:
    """Hard less used by bare resource name, for compute and extended resources that have both."""
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    free: dict[str, int] = {}
    # Bare names first, so that the entry for requests wins.
    for name in sorted(hard, key=lambda item: item.startswith(_REQUESTS)):
        bare = name.removeprefix(_REQUESTS)
        if name not in used or not (bare in ("cpu", "memory") or is_extended_resource(bare)):
            continue
        free[bare] = node_units(bare, quantity.parse(hard[name]) - quantity.parse(used[name]))
    return free


def _quotient(free: Mapping[str, int] | None, wanted: Mapping[str, Quantity]) -> int:
    """How often the wanted amounts fit, rounded toward zero; resources without a limit do not count."""
    if free is None:
        return 0
    answer = UNLIMITED
    for name, amount in wanted.items():
        units = node_units(name, amount)
        if name in free and units > 0:
            answer = min(answer, int(abs(free[name]) // units) * (1 if free[name] >= 0 else -1))
    return answer

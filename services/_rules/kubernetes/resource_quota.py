"""Usage of a namespace's ResourceQuota by an object, and the API server's message when it exceeds the quota.

Enforced are counts (`pods`, `count/deployments.apps`, `services.loadbalancers`, …), cpu, memory, ephemeral storage and
extended resources of pods, storage of claims, and the scopes Terminating, NotTerminating, BestEffort and NotBestEffort.
A quota with a scope selector or another scope limits nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.limit_range import pod_amounts
from services._rules.kubernetes.quantity import ZERO, Quantity, QuantityError, from_value, parse

Amounts = dict[str, Quantity]

COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_ONE: Final = from_value(1)
_FINISHED: Final = ("Succeeded", "Failed")


def usage(group: str, plural: str, obj: Manifest) -> Amounts:
    """What one object takes; a pod that ended takes only its place in the count of pods as objects."""
    used: Amounts = {f"count/{plural}.{group}" if group else f"count/{plural}": _ONE}
    if group:
        return used
    if plural == "pods":
        if (obj.get("status") or {}).get("phase") not in _FINISHED:
            used |= {"pods": _ONE, **_of_pod(obj)}
        return used
    if plural in COUNTED:
        used[plural] = _ONE
    spec = obj.get("spec") or {}
    if plural == "services":
        ports = len(spec.get("ports") or ())
        if spec.get("type") == "LoadBalancer":
            used |= {"services.loadbalancers": _ONE, "services.nodeports": from_value(ports)}
        elif spec.get("type") == "NodePort":
            used["services.nodeports"] = from_value(ports)
    elif plural == "persistentvolumeclaims":
        used["requests.storage"] = _amount(((spec.get("resources") or {}).get("requests") or {}).get("storage"))
    return used


def _of_pod(pod: Manifest) -> Amounts:
    spec = pod.get("spec") or {}
    found: Amounts = {}
    for name, amount in pod_amounts(spec, "requests").items():
        found[f"requests.{name}"] = amount
        if name in PLAIN:
            found[name] = amount
    for name, amount in pod_amounts(spec, "limits").items():
        found[f"limits.{name}"] = amount
    return found


def _amount(text: Any) -> Quantity:
    try:
        return parse(text)
    except QuantityError:
        return ZERO


def concerns(quota: Manifest, plural: str, obj: Manifest) -> bool:
    """Whether a quota counts an object, as far as its scopes go."""
    spec = quota.get("spec") or {}
    if spec.get("scopeSelector"):
        return False
    for scope in spec.get("scopes") or ():
        if plural != "pods":
            return False
        pod = obj.get("spec") or {}
        ends = pod.get("activeDeadlineSeconds") is not None
        modest = not _of_pod(obj)
        holds = {"Terminating": ends, "NotTerminating": not ends, "BestEffort": modest, "NotBestEffort": not modest}
        if not holds.get(scope, False):
            return False
    return True


def refusal(quota: Manifest, wanted: Amounts, taken: Iterable[Amounts]) -> str:
    """Why an object that takes `wanted` does not fit beside what others have `taken`; empty when it fits."""
    hard = {name: _amount(text) for name, text in ((quota.get("spec") or {}).get("hard") or {}).items()}
    name = quota["metadata"]["name"]
    if "pods" in wanted:
        compute = (one for one in sorted(hard) if one.rpartition(".")[2] in PLAIN)
        missing = [one for one in compute if one not in wanted]
        if missing:
            return f"failed quota: {name}: must specify {','.join(missing)}"
    limited = [one for one in sorted(wanted) if one in hard and not wanted[one].is_zero()]
    if not limited:
        return ""
    used = dict.fromkeys(limited, ZERO)
    for amounts in taken:
        for one in limited:
            if one in amounts:
                used[one] = used[one] + amounts[one]
    over = [one for one in limited if hard[one] < used[one] + wanted[one]]
    if not over:
        return ""
    parts = (("requested", wanted), ("used", used), ("limited", hard))
    limits = ", ".join(f"{word}: {','.join(f'{one}={amounts[one]}' for one in over)}" for word, amounts in parts)
    return f"exceeded quota: {name}, {limits}"

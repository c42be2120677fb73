"""Usage of a namespace's ResourceQuota by an object, and the API server's message when it exceeds the quota.

Enforced are counts (`pods`, `count/deployments.apps`, `services.loadbalancers`, …), cpu, memory, ephemeral storage,
huge pages and extended resources of pods, storage of claims, also by storage class, and scopes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.limit_range import pod_amounts
from services._rules.kubernetes.pod_resources import add_to, is_extended_resource
from services._rules.kubernetes.quantity import ZERO, Quantity, QuantityError, from_value, parse

Amounts = dict[str, Quantity]

COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
PREFIXES: Final = ("", "requests.", "limits.")
OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_OF_PODS: Final = frozenset({"pods", *(f"{prefix}{name}" for prefix in PREFIXES for name in PLAIN)})
_OF_SERVICES: Final = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
_DEMANDED: Final = frozenset(f"{prefix}{name}" for prefix in PREFIXES for name in ("cpu", "memory"))
"""Resources that every container has to name where a quota limits them."""
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_ONE: Final = from_value(1)
_FINISHED: Final = ("Succeeded", "Failed")


def count_name(group: str, plural: str) -> str:
    """The name under which a quota counts the objects of a resource."""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def tracked(names: Iterable[str], group: str, plural: str) -> list[str]:
    """Those of the limited names that objects of a resource have a part in, sorted."""
    return sorted(name for name in names if name == count_name(group, plural) or (not group and _tracks(plural, name)))


def _tracks(plural: str, name: str) -> bool:
    if plural == "pods":
        huge = name.startswith(("hugepages-", "requests.hugepages-"))
        return huge or name in _OF_PODS or (name.startswith("requests.") and is_extended_resource(name[9:]))
    if plural == "services":
        return name in _OF_SERVICES
    if plural == "persistentvolumeclaims":
        return name in _OF_CLAIMS or name.rpartition(OF_CLASS)[2] in _OF_CLAIMS
    return plural in COUNTED and name == plural


def usage(group: str, plural: str, obj: Manifest, moment: dt.datetime | None = None) -> Amounts:
    """What one object takes; a pod that ended takes only its place in the count of pods as objects.

    So does a pod that is deleted and whose grace period is over at the moment, where one is given.
    """
    used: Amounts = {count_name(group, plural): _ONE}
    if group:
        return used
    if plural == "pods":
        ended = (obj.get("status") or {}).get("phase") in _FINISHED or (moment is not None and _overdue(obj, moment))
        return used if ended else {**used, "pods": _ONE, **_of_pod(obj)}
    if plural in COUNTED:
        used[plural] = _ONE
    spec = obj.get("spec") or {}
    if plural == "services":
        used |= _of_service(spec)
    elif plural == "persistentvolumeclaims":
        used |= _of_claim(obj, spec)
    return used


def _overdue(pod: Manifest, moment: dt.datetime) -> bool:
    meta = pod.get("metadata") or {}
    deleted, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return False
    return moment > dt.datetime.fromisoformat(deleted) + dt.timedelta(seconds=grace)


def _of_service(spec: Manifest) -> Amounts:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        return {"services.loadbalancers": _ONE, "services.nodeports": from_value(len(ports))}
    return {"services.nodeports": from_value(len(ports) if kind == "NodePort" else 0), "services.loadbalancers": ZERO}


def _of_claim(claim: Manifest, spec: Manifest) -> Amounts:
    asked = _amount(((spec.get("resources") or {}).get("requests") or {}).get("storage"))
    found: Amounts = {"requests.storage": asked}
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    chosen = annotations.get(_BETA_CLASS) or spec.get("storageClassName")
    if chosen:
        found |= {f"{chosen}{OF_CLASS}persistentvolumeclaims": _ONE, f"{chosen}{OF_CLASS}requests.storage": asked}
    return found


def _of_pod(pod: Manifest) -> Amounts:
    spec = pod.get("spec") or {}
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    for name, text in (spec.get("overhead") or {}).items():
        for amounts in (requests, limits):
            add_to(amounts, {name: _amount(text)})
    return _named(requests, limits)


def _named(requests: Amounts, limits: Amounts) -> Amounts:
    """Amounts under the names that quotas have for them."""
    found: Amounts = {}
    for name, amount in requests.items():
        found[f"requests.{name}"] = amount
        if name in PLAIN or name.startswith("hugepages-"):
            found[name] = amount
    for name, amount in limits.items():
        found[f"limits.{name}"] = amount
    return found


def _amount(text: Any) -> Quantity:
    try:
        return parse(text)
    except QuantityError:
        return ZERO


def amounts(values: Manifest | None) -> Amounts:
    """A table of quantities; what is no quantity counts as nothing."""
    return {name: _amount(text) for name, text in (values or {}).items()}


def concerns(quota: Manifest, plural: str, obj: Manifest) -> bool:
    """Whether a quota counts an object, as far as its scopes go."""
    spec = quota.get("spec") or {}
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    wanted = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return all(plural == "pods" and _in_scope(one, obj) for one in (*wanted, *selected))


def _in_scope(expression: Manifest, pod: Manifest) -> bool:
    spec = pod.get("spec") or {}
    scope = expression.get("scopeName")
    if scope == "PriorityClass":
        return _selects(expression, spec.get("priorityClassName") or None)
    deadline = spec.get("activeDeadlineSeconds")
    ends = deadline is not None and deadline >= 0
    if scope in ("BestEffort", "NotBestEffort"):
        return bool((scope == "BestEffort") == _best_effort(spec))
    if scope == "CrossNamespacePodAffinity":
        return _reaches_out(spec)
    return bool(ends if scope == "Terminating" else scope == "NotTerminating" and not ends)


def _selects(expression: Manifest, name: str | None) -> bool:
    values = expression.get("values") or ()
    operator = expression.get("operator")
    if operator in ("In", "NotIn"):
        return bool((name in values) == (operator == "In"))
    return (name is not None) == (operator == "Exists")


def _best_effort(spec: Manifest) -> bool:
    """Whether no container asks for any cpu or memory, nor is bounded in it."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for part in (resources.get("requests") or {}, resources.get("limits") or {}):
            if any(name in part and _amount(part[name]) > ZERO for name in ("cpu", "memory")):
                return False
    return True


def _reaches_out(spec: Manifest) -> bool:
    """Whether a rule of affinity names or selects namespaces."""
    affinity = spec.get("affinity") or {}
    for part in (affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}):
        terms = list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def unspecified(pod: Manifest, limited: Iterable[str]) -> str:
    """What containers of a pod have to name because a quota limits it, empty when they do."""
    demanded = _DEMANDED.intersection(limited)
    lacking: dict[str, list[str]] = {}
    for container in _containers(pod):
        resources = container.get("resources") or {}
        named = _named(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in demanded.difference(named):
            lacking.setdefault(name, []).append(container.get("name", ""))
    if not lacking:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def _containers(pod: Manifest) -> Iterator[Manifest]:
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def refusal(quota: Manifest, wanted: Amounts, taken: Iterable[Amounts]) -> str:
    """Why an object that takes `wanted` does not fit beside what others have `taken`; empty when it fits."""
    hard = amounts((quota.get("spec") or {}).get("hard"))
    name = quota["metadata"]["name"]
    if "pods" in wanted:
        compute = (one for one in sorted(hard) if one.rpartition(".")[2] in PLAIN)
        missing = [one for one in compute if one not in wanted]
        if missing:
            return f"failed quota: {name}: must specify {','.join(missing)}"
    limited = [one for one in sorted(wanted) if one in hard and not wanted[one].is_zero()]
    used: Amounts = dict.fromkeys(limited, ZERO)
    for each in taken:
        for one in limited:
            if one in each:
                used[one] = used[one] + each[one]
    return exceeded(name, {one: wanted[one] for one in limited}, used, hard)


def exceeded(name: str, wanted: Amounts, used: Amounts, hard: Amounts) -> str:
    """Why amounts do not fit into a quota beside those used, empty when they do; all of them are limited."""
    over = [one for one in sorted(wanted) if hard[one] < used.get(one, ZERO) + wanted[one]]
    if not over:
        return ""
    parts = (("requested", wanted), ("used", used), ("limited", hard))
    limits = ", ".join(f"{word}: {_shown(values, over)}" for word, values in parts)
    return f"exceeded quota: {name}, {limits}"


def _shown(values: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{one}={values[one]}" for one in names if one in values)

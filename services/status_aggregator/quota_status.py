"""Decides the status of FederatedResourceQuotas: what is used in all, and what each cluster says of its share.

Source: docs/sources.md#quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import shortened
from services._rules.kubernetes import quantity
from services._rules.kubernetes.pod_resources import add_to
from services._rules.kubernetes.quantity import QuantityError
from services._rules.quota.binding_usage import Amounts
from services._rules.quota.specification import KIND, QUOTAS, FederatedQuota, read_quota
from services._rules.quota.usage_index import UsageIndex

_GROUP: Final = "fleetlog"
_MOST_RESOURCES: Final = 256
"""Resources of one cluster's report that count."""
_MOST_NAMED: Final = 10
_status: Final = msgspec.json.Decoder(dict[str, Any]).decode


class QuotaState(Struct):
    """Quotas by the object that clusters get of them, and the usage of namespaces where quotas are enforced."""

    quotas: dict[ObjectKey, FederatedQuota] = field(default_factory=dict)
    in_namespace: dict[str, set[ObjectKey]] = field(default_factory=dict)
    usage: UsageIndex | None = None

    def take(self, event: PolicyChanged | PolicyDeleted) -> list[ObjectKey]:
        """Take in a quota; its key."""
        if event.key.kind != KIND:
            return []
        namespace = event.key.namespace
        key = ObjectKey("", QUOTAS, namespace, event.key.name)
        if isinstance(event, PolicyChanged):
            self.quotas[key] = read_quota(
                namespace,
                event.key.name,
                event.uid,
                event.manifest,
                deleting=event.deleting,
                generation=event.generation,
            )
            self.in_namespace.setdefault(namespace, set()).add(key)
        else:
            self.quotas.pop(key, None)
            keys = self.in_namespace.get(namespace, set())
            keys.discard(key)
            if not keys:
                self.in_namespace.pop(namespace, None)
        return [key]

    def used(self, namespace: str) -> list[ObjectKey]:
        """The key of all quotas of a namespace whose usage changed; none where there is no quota."""
        return [ObjectKey(_GROUP, "quotas", namespace, "usage")] if namespace in self.in_namespace else []


def is_usage_key(key: ObjectKey) -> bool:
    """Whether a key stands for all quotas of a namespace."""
    return key.group == _GROUP and key.resource == "quotas"


class Share(Struct, frozen=True):
    """What one cluster holds of a quota: the status it reports, or (`problem`) why it does not hold it."""

    cluster: str
    status: Raw | None = None
    problem: str = ""


class QuotaView(Struct, frozen=True):
    """The status that a quota should have, and what is wrong with it or its shares in words."""

    status: Manifest
    unsynced: str = ""
    unread: str = ""
    unused: str = ""


def view_of(
    quota: FederatedQuota,
    shares: Iterable[Share],
    clusters: Iterable[str],
    usage: UsageIndex | None,
    propagated: BindingRequested | None,
) -> QuotaView:
    """Status and problems of a quota; `propagated` is the binding of a ResourceQuota that goes before its shares."""
    aggregated: list[Manifest] = []
    total: Amounts = {}
    unsynced, unread = [item.problem for item in quota.assignments if item.problem], []
    if propagated is not None and quota.assignments:
        place = f"{quota.namespace}/{quota.name}"
        unsynced.append(
            f"a policy propagates ResourceQuota {place}, which goes before the assignments; rename one of the two"
        )
    known = set(clusters)
    missing = [item.cluster for item in quota.assignments if item.cluster not in known]
    if missing:
        named = ", ".join(missing[:_MOST_NAMED]) + (" and more" if len(missing) > _MOST_NAMED else "")
        unsynced.append(f"no member named {named}: what is assigned there waits until it joins")
    for share in shares:
        if share.problem:
            unsynced.append(f"cluster {share.cluster}: {shortened(share.problem)}")
        if share.status is None:
            continue
        try:
            entry, used = _reported(share)
        except (QuantityError, ValueError, msgspec.MsgspecError) as error:
            unread.append(f"cluster {share.cluster}: {shortened(str(error))}")
            continue
        aggregated.append(entry)
        add_to(total, used)
    if usage is not None:
        total = {name: amount for name, amount in usage.total(quota.namespace).items() if name in quota.overall}
    status: Manifest = {"overall": _texts(quota.overall)}
    if total:
        status["overallUsed"] = _texts(total)
    if aggregated:
        status["aggregatedStatus"] = aggregated
    wrong = [problem for problem in quota.problems if problem.startswith("spec.overall")]
    return QuotaView(status, _joined(unsynced), _joined(unread), _joined(wrong))


def _reported(share: Share) -> tuple[Manifest, Amounts]:
    """One entry of the status, and what is used; raises QuantityError, ValueError or MsgspecError where it is none."""
    found = _status(share.status) if share.status is not None else {}
    hard, used = _amounts(found.get("hard"), "hard"), _amounts(found.get("used"), "used")
    return {"clusterName": share.cluster, "hard": _texts(hard), "used": _texts(used)}, used


def _amounts(given: Any, name: str) -> Amounts:
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_RESOURCES:
        raise ValueError(f"status.{name} is no map of at most {_MOST_RESOURCES} resources")
    found = {resource: quantity.parse(text) for resource, text in given.items()}
    for resource, amount in found.items():
        if amount.nano < 0:
            raise ValueError(f"status.{name}[{resource}] is negative")
    return found


def _texts(amounts: Mapping[str, quantity.Quantity]) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _joined(problems: list[str]) -> str:
    return "; ".join(problems)[:1000]

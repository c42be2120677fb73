"""Decides whether a change of usage passes the FederatedResourceQuotas of a namespace (docs/sources.md#quota).

Every resource that a quota limits is checked, also those that do not change: above a limit that was lowered, only a
change that brings the usage down to it passes. Each quota whose resources change has to pass. Quotas over the same
resources are checked at once, by the lowest limit of each, so that thousands of them cost as much as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from schemas.events.placement import QuotaRefusal
from schemas.keys import ObjectKey
from services._rules.kubernetes.pod_resources import is_extended_resource
from services._rules.kubernetes.quantity import ZERO, Quantity
from services._rules.quota.binding_usage import Amounts
from services._rules.quota.specification import FederatedQuota
from services._rules.quota.usage_index import UsageIndex

QUOTA_EXCEEDED: Final = "QuotaExceeded"
_BOUND: Final = ("cpu", "memory", "pods", "ephemeral-storage")


def is_supported(resource: str) -> bool:
    """Whether a quota can limit what bindings use of a resource."""
    return (
        resource in _BOUND
        or resource.startswith("hugepages-")
        or "kubernetes.io/" in resource
        or is_extended_resource(resource)
    )


def change(after: Mapping[str, Quantity], before: Mapping[str, Quantity]) -> Amounts:
    """How much more is used than before, by resource; what stays the same is left out."""
    found = {name: after.get(name, ZERO) - before.get(name, ZERO) for name in {**after, **before}}
    return {name: amount for name, amount in found.items() if amount.nano}


def added(used: Mapping[str, Quantity], more: Mapping[str, Quantity]) -> Amounts:
    """The sum of two usages."""
    return {name: used.get(name, ZERO) + more.get(name, ZERO) for name in {**used, **more}}


class _Alike(Struct):
    """The quotas of a namespace over the same resources; `lowest` by resource is worked out when it is asked for."""

    quotas: dict[str, FederatedQuota] = field(default_factory=dict)
    lowest: dict[str, tuple[Quantity, str]] | None = None

    def limits(self) -> dict[str, tuple[Quantity, str]]:
        if self.lowest is None:
            found: dict[str, tuple[Quantity, str]] = {}
            for name, quota in sorted(self.quotas.items()):
                for resource, limit in quota.overall.items():
                    if resource not in found or limit.nano < found[resource][0].nano:
                        found[resource] = (limit, name)
            self.lowest = found
        return self.lowest


class QuotaBook:
    """The quotas in force by namespace."""

    def __init__(self) -> None:
        self._alike: dict[str, dict[frozenset[str], _Alike]] = {}
        self._quotas: dict[tuple[str, str], FederatedQuota] = {}

    def __eq__(self, other: object) -> bool:
        """Whether the same quotas are in force."""
        return isinstance(other, QuotaBook) and self._quotas == other._quotas

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._quotas)

    def put(self, quota: FederatedQuota) -> None:
        """A quota as it is from now on."""
        self.drop(quota.namespace, quota.name)
        self._quotas[quota.namespace, quota.name] = quota
        groups = self._alike.setdefault(quota.namespace, {})
        group = groups.setdefault(frozenset(quota.overall), _Alike())
        group.quotas[quota.name], group.lowest = quota, None

    def drop(self, namespace: str, name: str) -> None:
        """A quota is gone."""
        known = self._quotas.pop((namespace, name), None)
        if known is None:
            return
        groups = self._alike[namespace]
        resources = frozenset(known.overall)
        group = groups[resources]
        del group.quotas[name]
        group.lowest = None
        if not group.quotas:
            del groups[resources]
        if not groups:
            del self._alike[namespace]

    def limits(self, namespace: str) -> bool:
        """Whether any quota is in force in a namespace."""
        return namespace in self._alike

    def of(self, namespace: str) -> Iterable[FederatedQuota]:
        """The quotas of a namespace."""
        return (quota for group in self._alike.get(namespace, {}).values() for quota in group.quotas.values())

    def refusal(
        self, key: ObjectKey, usage: UsageIndex, before: Mapping[str, Quantity], after: Mapping[str, Quantity]
    ) -> QuotaRefusal | None:
        """Why a binding may not use `after` instead of `before`; None where every quota of its namespace lets it."""
        delta = change(after, before) if self.limits(key.namespace) else {}
        return self.exceeded(key.namespace, added(usage.beside(key), after), delta) if delta else None

    def exceeded(
        self, namespace: str, candidate: Mapping[str, Quantity], delta: Mapping[str, Quantity]
    ) -> QuotaRefusal | None:
        """The quota that a namespace which uses `candidate` after a change by `delta` exceeds; None where none is."""
        for resources, group in self._alike.get(namespace, {}).items():
            if resources.isdisjoint(delta):
                continue
            for resource, (limit, name) in sorted(group.limits().items()):
                wanted = candidate.get(resource, ZERO)
                if wanted.nano > limit.nano and wanted.nano > 0 and is_supported(resource):
                    return QuotaRefusal(quota=name, resource=resource, requested=str(wanted), limit=str(limit))
        return None


def refusal_words(key: ObjectKey, refusal: QuotaRefusal) -> str:
    """The message of a refused placement: which quota, how much of what, and what to do."""
    return (
        f"FederatedResourceQuota {key.namespace}/{refusal.quota} is exceeded: with this placement the namespace would "
        f"use {refusal.requested} {refusal.resource}, the limit is {refusal.limit}. Ask for less, free what other "
        f"workloads use, or raise spec.overall.{refusal.resource}; it is tried again then"
    )

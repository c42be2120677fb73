"""Keeps quotas, usage and the bindings that wait for an amount, by namespace; with the gate FederatedQuotaEnforcement.

A binding that was refused waits until its namespace uses less or its quotas change, and is tried again only where what
it lacks fits into what is free then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import ObjectKey
from services._rules.kubernetes.quantity import Quantity
from services._rules.quota.binding_usage import Amounts
from services._rules.quota.enforcement import QuotaBook, added
from services._rules.quota.specification import KIND, read_quota
from services._rules.quota.usage_index import UsageIndex

_GROUP: Final = "fleetlog"
_RESOURCE: Final = "quotas"
Lack = tuple[tuple[str, Quantity], ...]
"""By how much the usage of a namespace would change, sorted by resource."""


def waiting_key(namespace: str) -> ObjectKey:
    """The key of all bindings of a namespace that wait: decided when some of them may be tried again."""
    return ObjectKey(_GROUP, _RESOURCE, namespace, "waiting")


def is_waiting_key(key: ObjectKey) -> bool:
    """Whether a key stands for the waiting bindings of a namespace."""
    return key.group == _GROUP and key.resource == _RESOURCE


class NamespaceQuotas:
    """What is limited, what is used, and who waits."""

    def __init__(self) -> None:
        self.book = QuotaBook()
        self.usage = UsageIndex()
        self._waiting: dict[str, dict[Lack, dict[ObjectKey, None]]] = {}
        self._filed: dict[ObjectKey, Lack] = {}

    def __eq__(self, other: object) -> bool:
        """Whether the same is limited and used."""
        return isinstance(other, NamespaceQuotas) and self.book == other.book and self.usage == other.usage

    __hash__ = None  # type: ignore[assignment]

    @property
    def waiting(self) -> int:
        """Bindings that a quota refused."""
        return len(self._filed)

    def take(self, event: PolicyChanged | PolicyDeleted) -> list[ObjectKey]:
        """Take in a quota; the key of those who may be tried again by it."""
        key = event.key
        if key.kind != KIND:
            return []
        if isinstance(event, PolicyChanged):
            self.book.put(read_quota(key.namespace, key.name, event.uid, event.manifest))
        else:
            self.book.drop(key.namespace, key.name)
        return self.freed(key.namespace)

    def freed(self, namespace: str) -> list[ObjectKey]:
        """The key of those who wait in a namespace; none where none does."""
        return [waiting_key(namespace)] if namespace in self._waiting else []

    def decided(self, key: ObjectKey, lack: Mapping[str, Quantity] | None) -> None:
        """A binding was decided: it waits where it was refused a change of usage."""
        self.settled(key)
        if lack is None:
            return
        filed = tuple(sorted(lack.items()))
        self._waiting.setdefault(key.namespace, {}).setdefault(filed, {})[key] = None
        self._filed[key] = filed

    def settled(self, key: ObjectKey) -> None:
        """A binding waits no longer."""
        filed = self._filed.pop(key, None)
        if filed is None:
            return
        groups = self._waiting[key.namespace]
        del groups[filed][key]
        if not groups[filed]:
            del groups[filed]
        if not groups:
            del self._waiting[key.namespace]

    def fitting(self, namespace: str) -> list[ObjectKey]:
        """Those who fit into what is free, together; the longest wait of equal ones first."""
        used: Amounts = dict(self.usage.total(namespace))
        found: list[ObjectKey] = []
        for lack, keys in self._waiting.get(namespace, {}).items():
            delta = dict(lack)
            for key in keys:
                candidate = added(used, delta)
                if self.book.exceeded(namespace, candidate, delta) is not None:
                    break
                used = candidate
                found.append(key)
        return found

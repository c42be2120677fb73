"""Adds up what the bindings of each namespace use, one binding at a time (docs/sources.md#quota).

A placement that was decided and is not on the log yet counts with the greater of what it takes and what it took, so
that decisions taken at the same time never use an amount twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from schemas.events.placement import TargetCluster
from schemas.keys import ObjectKey
from services._rules.kubernetes.quantity import ZERO, Quantity
from services._rules.quota.binding_usage import Amounts, Requests

_NOTHING: Final[Mapping[str, Quantity]] = {}


class _Used(Struct):
    """`stands` is on the log; `promised` is on its way there; `counted` is what the sum of its namespace has."""

    stands: Mapping[str, Quantity] = _NOTHING
    promised: Mapping[str, Quantity] | None = None
    counted: Mapping[str, Quantity] = _NOTHING


class UsageIndex:
    """Usage by namespace and binding; objects without a namespace are not counted."""

    def __init__(self) -> None:
        self._used: dict[ObjectKey, _Used] = {}
        self._sums: dict[str, Amounts] = {}

    def __eq__(self, other: object) -> bool:
        """Whether the same is used on the log."""
        return isinstance(other, UsageIndex) and self._standing() == other._standing()

    __hash__ = None  # type: ignore[assignment]

    def _standing(self) -> dict[ObjectKey, Mapping[str, Quantity]]:
        return {key: used.stands for key, used in self._used.items() if used.stands}

    def stands(self, key: ObjectKey, requests: Requests, targets: Iterable[TargetCluster]) -> bool:
        """What a binding uses by the log, from now on; whether its namespace uses less of something by it."""
        return self._put(key, requests.on(targets), None)

    def promise(self, key: ObjectKey, requests: Requests, targets: Iterable[TargetCluster]) -> None:
        """A placement was decided and is on its way to the log."""
        used = self._used.get(key)
        self._put(key, used.stands if used is not None else _NOTHING, requests.on(targets))

    def withdraw(self, key: ObjectKey) -> bool:
        """The promise of a binding is void: it is decided again; whether its namespace uses less of something by it."""
        used = self._used.get(key)
        return used is not None and used.promised is not None and self._put(key, used.stands, None)

    def withdraw_all(self) -> None:
        """No promise holds any more: another instance decides now."""
        for key in [key for key, used in self._used.items() if used.promised is not None]:
            self.withdraw(key)

    def forget(self, key: ObjectKey) -> None:
        """A binding is gone from the log."""
        self._put(key, _NOTHING, None)

    def of(self, key: ObjectKey) -> Mapping[str, Quantity]:
        """What a binding uses by the log."""
        used = self._used.get(key)
        return used.stands if used is not None else _NOTHING

    def beside(self, key: ObjectKey) -> Amounts:
        """What all other bindings of its namespace use."""
        total, used = self._sums.get(key.namespace, _NOTHING), self._used.get(key)
        own = used.counted if used is not None else _NOTHING
        return {name: amount - own.get(name, ZERO) for name, amount in total.items()}

    def total(self, namespace: str) -> Mapping[str, Quantity]:
        """What all bindings of a namespace use; amounts of nothing are not there."""
        return self._sums.get(namespace, _NOTHING)

    def _put(self, key: ObjectKey, stands: Mapping[str, Quantity], promised: Mapping[str, Quantity] | None) -> bool:
        if not key.namespace:
            return False
        used = self._used.get(key)
        if used is None:
            if not stands and not promised:
                return False
            used = self._used[key] = _Used()
        used.stands, used.promised = stands, promised
        before, after = used.counted, _greater(stands, promised) if promised else stands
        if not stands and promised is None:
            del self._used[key]
        if before == after:
            return False
        used.counted = after
        return self._add(key.namespace, before, after)

    def _add(self, namespace: str, before: Mapping[str, Quantity], after: Mapping[str, Quantity]) -> bool:
        total, less = self._sums.setdefault(namespace, {}), False
        for name in {**before, **after}:
            change = after.get(name, ZERO) - before.get(name, ZERO)
            less = less or change.nano < 0
            left = total.get(name, ZERO) + change
            if left.nano:
                total[name] = left
            else:
                total.pop(name, None)
        if not total:
            del self._sums[namespace]
        return less


def _greater(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    return {name: max(one.get(name, ZERO), other.get(name, ZERO)) for name in {**one, **other}}

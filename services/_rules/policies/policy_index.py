"""Finds the policies that may match a template without a look at all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from services._rules.policies.matching import SelectorSet, Template

K = TypeVar("K")

_Place = tuple[str, str, str, str]
_ANY: Final = ""


class PolicyIndex(Generic[K]):
    """Keys of policies by their namespace and by the kinds and names that their selectors require."""

    def __init__(self) -> None:
        self._places: dict[_Place, set[K]] = {}
        self._kept: dict[K, tuple[str, SelectorSet]] = {}

    def put(self, key: K, namespace: str, selectors: SelectorSet) -> None:
        """Enter a policy, or what it selects now; the namespace is empty for a cluster-wide one."""
        if self._kept.get(key) == (namespace, selectors):
            return
        self.drop(key)
        self._kept[key] = (namespace, selectors)
        for place in _places(namespace, selectors):
            self._places.setdefault(place, set()).add(key)

    def drop(self, key: K) -> None:
        """Forget a policy."""
        if key not in self._kept:
            return
        for place in _places(*self._kept.pop(key)):
            held = self._places[place]
            held.discard(key)
            if not held:
                del self._places[place]

    def candidates(self, template: Template, namespace: str) -> Iterable[K]:
        """Policies of one namespace (empty: the cluster-wide ones) with a selector for the kind, and for the name."""
        found = (namespace, template.api_version, template.kind)
        return self._places.get((*found, _ANY), set()) | self._places.get((*found, template.name), set())


def _places(namespace: str, selectors: SelectorSet) -> set[_Place]:
    named = {(namespace, api_version, kind, name) for api_version, kind, _, name in selectors.named}
    others = {*(key[:2] for key in selectors.whole), *(key[:2] for key in selectors.labelled), *selectors.others}
    return named | {(namespace, api_version, kind, _ANY) for api_version, kind in others}

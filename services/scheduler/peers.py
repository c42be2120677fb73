"""Indexes the clusters of each workload affinity group, including unwritten decisions.

The reference reads copies of bindings that lag behind its own writes; here a decision counts from when it is made.
A lookup costs no more than the clusters that a group uses, however many workloads it has.
Source: docs/sources.md#workload-affinity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.scheduling.scheduling_views import Peers

Clusters: TypeAlias = frozenset[str]

_NOWHERE: Final[Clusters] = frozenset()


class _Group:
    """Workloads of one group in one namespace, and how many of them each cluster runs."""

    __slots__ = ("counts", "members", "placed")

    def __init__(self) -> None:
        self.members: dict[ObjectKey, Clusters] = {}
        self.counts: dict[str, int] = {}
        self.placed = 0

    def set(self, key: ObjectKey, clusters: Clusters) -> None:
        """A member runs in these clusters."""
        self._count(self.members.get(key, _NOWHERE), -1)
        self._count(clusters, 1)
        self.members[key] = clusters

    def remove(self, key: ObjectKey) -> None:
        self._count(self.members.pop(key, _NOWHERE), -1)

    def _count(self, clusters: Clusters, step: int) -> None:
        if clusters:
            self.placed += step
        for name in clusters:
            count = self.counts.get(name, 0) + step
            if count:
                self.counts[name] = count
            else:
                del self.counts[name]

    def common(self, key: ObjectKey) -> Clusters | None:
        """Clusters that run every other member that runs anywhere; None where no other does."""
        own = self.members.get(key, _NOWHERE)
        others = self.placed - bool(own)
        if not others:
            return None
        return frozenset(name for name, count in self.counts.items() if count - (name in own) == others)

    def used(self, key: ObjectKey) -> Clusters:
        """Clusters that run any other member."""
        own = self.members.get(key, _NOWHERE)
        return frozenset(name for name, count in self.counts.items() if count > (name in own))


class PeerIndex:
    """Workloads by the groups that their bindings name, per namespace."""

    def __init__(self) -> None:
        self._together: dict[tuple[str, str], _Group] = {}
        self._apart: dict[tuple[str, str], _Group] = {}
        self._named: dict[ObjectKey, tuple[str, str]] = {}
        """The affinity and the anti-affinity group of an object; empty for none."""
        self._placed: dict[ObjectKey, Clusters] = {}
        self._promised: dict[ObjectKey, Clusters] = {}

    def __eq__(self, other: object) -> bool:
        """Whether the same workloads are known to run in the same clusters."""
        return isinstance(other, PeerIndex) and (self._named, self._placed) == (other._named, other._placed)

    __hash__ = None  # type: ignore[assignment]

    def concerns(self, key: ObjectKey, spec: Manifest | None) -> bool:
        """Whether an object is, or now becomes, a member of a group."""
        return key in self._named or (spec is not None and bool(spec.get("workloadAffinityGroups")))

    def follow(self, key: ObjectKey, spec: Manifest | None, clusters: Iterable[str]) -> list[ObjectKey]:
        """Take in the recorded clusters of an object, or its end where `spec` is None.

        Returns the members of its groups that may fit now where they did not: a first placement only narrows what is
        left for the others, any other change may free something.
        """
        before, named = self._named.get(key), _groups(key, spec)
        was = self._placed.get(key, _NOWHERE)
        self._promised.pop(key, None)
        peers = self._members(key, before) if before is not None and was else []
        if before is not None and before != named:
            self._leave(key, before)
        if named is None:
            self._placed.pop(key, None)
            return peers
        self._named[key] = named
        self._placed[key] = frozenset(clusters)
        self._show(key)
        return peers if before != named or was != self._placed[key] else []

    def promise(self, key: ObjectKey, clusters: Iterable[str]) -> None:
        """A decision about an object is on its way to the log."""
        if key in self._named:
            self._promised[key] = frozenset(clusters)
            self._show(key)

    def withdraw(self, key: ObjectKey) -> None:
        """What was promised of an object does not count any more."""
        if self._promised.pop(key, None) is not None:
            self._show(key)

    def withdraw_all(self) -> None:
        """Nothing that was promised counts any more."""
        for key in list(self._promised):
            self.withdraw(key)

    def of(self, key: ObjectKey) -> Peers | None:
        """Where the peers of an object run; None where it belongs to no group."""
        named = self._named.get(key)
        if named is None:
            return None
        namespace, (together, apart) = key.namespace, named
        common = self._together[namespace, together].common(key) if together else None
        used = self._apart[namespace, apart].used(key) if apart else _NOWHERE
        return Peers((common,) if common is not None else (), used)

    def _show(self, key: ObjectKey) -> None:
        clusters = self._promised.get(key)
        if clusters is None:
            clusters = self._placed.get(key, _NOWHERE)
        for groups, name in zip((self._together, self._apart), self._named[key], strict=True):
            if name:
                groups.setdefault((key.namespace, name), _Group()).set(key, clusters)

    def _leave(self, key: ObjectKey, named: tuple[str, str]) -> None:
        del self._named[key]
        for groups, name in zip((self._together, self._apart), named, strict=True):
            if name:
                group = groups[key.namespace, name]
                group.remove(key)
                if not group.members:
                    del groups[key.namespace, name]

    def _members(self, key: ObjectKey, named: tuple[str, str]) -> list[ObjectKey]:
        found: dict[ObjectKey, None] = {}
        for groups, name in zip((self._together, self._apart), named, strict=True):
            if name:
                found.update(dict.fromkeys(groups[key.namespace, name].members))
        found.pop(key, None)
        return list(found)


def _groups(key: ObjectKey, spec: Manifest | None) -> tuple[str, str] | None:
    """The groups that a binding names; objects without a namespace have none."""
    named = (spec or {}).get("workloadAffinityGroups")
    if not isinstance(named, dict) or not key.namespace:
        return None
    found = named.get("affinityGroup"), named.get("antiAffinityGroup")
    together, apart = (name if isinstance(name, str) else "" for name in found)
    return (together, apart) if together or apart else None

"""Indexes the objects that a change of a cluster may move or help: only these are requeued (docs/scheduling.md).

Objects with equal hints share a group: those that follow every change of the clusters their placement names, and those
that could not be placed. Of the latter, an object that lacked capacity is requeued only once the clusters together
have enough of it and one of them has more than when the group was last tried. That costs one review per group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.keys import ObjectKey
from services._rules.policies.cluster_affinity import ClusterMatcher
from services._rules.scheduling.candidates import Estimator
from services._rules.scheduling.filters import refusal
from services._rules.scheduling.scheduling_views import BindingView, ClusterView, SchedulingOptions

GroupKey = tuple[Any, ...]
COUNTED_AT_ONCE: Final = 5000
"""Rooms that are counted in one go, clusters times groups: about 25 ms."""
_ONE_TERM: Final = ("",)


class QueueingHint(Struct, frozen=True, eq=False):
    """What of the clusters one object depends on: `view` is its binding, `terms` the affinity terms that count.

    `failed`: it could not be placed; `room`: for want of room, perhaps; `wanted`: replicas that still need room;
    `less_given`: room that was given to others does not count.
    """

    view: BindingView
    terms: tuple[str, ...] = _ONE_TERM
    failed: bool = False
    room: bool = False
    wanted: int = 0
    less_given: bool = False

    @property
    def group(self) -> GroupKey:
        """Equal for objects with the same requirements on clusters."""
        view = self.view
        alike: GroupKey = (view.placement, self.terms, view.api, view.workload, self.failed, self.room)
        if not self.failed:
            return alike
        running = tuple(sorted(target.name for target in view.clusters))
        needs = (view.demand, repr(view.components), view.replicas > 0, self.less_given)
        return (*alike, *needs, running, view.evicting)


class _Group:
    """Objects with the same requirements, and the capacity that each cluster has for one of their replicas."""

    __slots__ = ("api", "as_of", "base", "interest", "matchers", "members", "now", "total")

    def __init__(self, interest: QueueingHint) -> None:
        self.interest = interest
        self.api = interest.view.api
        self.matchers = _matchers(interest)
        self.members: dict[ObjectKey, int] = {}
        """What each of them wants."""
        self.now: dict[str, int] | None = None
        """Capacity by candidate cluster; None until it is needed."""
        self.base: dict[str, int] = {}
        """Room by cluster when the members were last tried: what is not above it cannot help."""
        self.total = 0
        self.as_of = 0
        """Number of the change of rooms up to which `base` is not above what a member was tried with."""

    def matches(self, cluster: ClusterView) -> bool:
        matchers = self.matchers
        return not matchers or any(matcher(cluster) for matcher in matchers)

    @property
    def stays(self) -> bool:
        """Whether a member stays where it is as long as its affinity matches, whatever else becomes of a cluster.

        Filters beside affinity let pass what runs there, and without groups of clusters and spread constraints no
        choice is made between clusters that pass.
        """
        placement = self.interest.view.placement
        return not (self.interest.failed or placement.affinity_names or placement.constraints)

    def room_of(self, cluster: ClusterView | None, options: SchedulingOptions) -> int | None:
        """Further replicas that a cluster could take; None where it is no candidate."""
        if cluster is None or cluster.deleting:
            return None
        view = self.interest.view
        if all(refusal(cluster, view, term) is not None for term in self.interest.terms):
            return None
        return Estimator(view, options).general(cluster)

    def count(self, clusters: Mapping[str, ClusterView], options: SchedulingOptions) -> dict[str, int]:
        """Take up the present room of all clusters."""
        now = {name: room for name, view in clusters.items() if (room := self.room_of(view, options)) is not None}
        self.now, self.total = now, sum(now.values())
        return now

    def review(
        self,
        changed: Iterable[str],
        described: Collection[str],
        clusters: Mapping[str, ClusterView],
        options: SchedulingOptions,
    ) -> list[ObjectKey]:
        """Take up the present room of clusters, some of which are described otherwise; the members that it may help."""
        now, more = self.now, False
        if now is None:
            now, more = self.count(clusters, options), True
            changed = ()
        for name in changed:
            before = now.get(name)
            if name in described:
                room = self.room_of(clusters.get(name), options)
            elif before is None:
                continue
            else:
                room = Estimator(self.interest.view, options).general(clusters[name])
            more = more or (room is not None and room > self.base.get(name, 0))
            if room == before:
                continue
            self.total += (room or 0) - (before or 0)
            if room is None:
                del now[name]
            else:
                now[name] = room
        helped = [key for key, wanted in self.members.items() if wanted <= self.total] if more else []
        if helped:
            self.base, self.as_of = dict(now), 0
        return helped


class UnschedulableIndex:
    """All objects that may have to be requeued when clusters change: a fold of the last facts of each object.

    Beside it stands what this instance noticed since it began; a fresh start does without.
    """

    def __init__(self) -> None:
        self.active = True
        """Whether this instance leads; a standby does not count capacity."""
        self.options = SchedulingOptions(several_templates=True)
        self._groups: dict[GroupKey, _Group] = {}
        self._filed: dict[ObjectKey, GroupKey] = {}
        self._short: dict[GroupKey, _Group] = {}
        """Those that lack capacity."""
        self._described: set[str] = set()
        self.failed: set[ObjectKey] = set()
        self.moved = 0
        """Position of the last fact that may have helped an unschedulable object."""
        self.changes = 1
        """Number of the last change of any cluster's room."""
        self.unreviewed: set[str] = set()
        """Clusters whose capacity changed since it was compared with what objects lack."""
        self.handed: dict[ObjectKey, float] = {}
        """When requests that named another scheduler before came to name the one they name; seconds since 1970."""

    def __eq__(self, other: object) -> bool:
        """Whether the same objects are indexed."""
        return (
            isinstance(other, UnschedulableIndex)
            and self._filed.keys() == other._filed.keys()
            and self.failed == other.failed
        )

    __hash__ = None  # type: ignore[assignment]

    def file(self, key: ObjectKey, interest: QueueingHint | None) -> None:
        """From now on an object depends on this of the clusters; None: on nothing that they could change."""
        group_key = interest.group if interest is not None else None
        filed = self._filed.get(key)
        if filed is not None and filed != group_key:
            self._leave(key, filed)
        if interest is None or group_key is None:
            return
        group = self._groups.get(group_key)
        if group is None:
            group = self._groups[group_key] = _Group(interest)
            if interest.room:
                self._short[group_key] = group
        group.members[key] = interest.wanted
        self._filed[key] = group_key
        if interest.failed:
            self.failed.add(key)

    def _leave(self, key: ObjectKey, filed: GroupKey) -> None:
        del self._filed[key]
        self.failed.discard(key)
        group = self._groups[filed]
        del group.members[key]
        if not group.members:
            del self._groups[filed]
            self._short.pop(filed, None)

    def begin(self) -> None:
        """This instance leads from now on, and decides every object first."""
        self.active = True

    def end(self) -> None:
        """This instance leads no more."""
        self.active = False
        self._described.clear()
        for group in self._short.values():
            group.now, group.total, group.base = None, 0, {}

    @property
    def short(self) -> bool:
        """Whether any object lacks room."""
        return bool(self._short)

    def describe(self, name: str) -> None:
        """More than the room of a cluster changed, or it is gone."""
        if self.active and self._short:
            self._described.add(name)

    def changed(
        self,
        before: ClusterView | None,
        after: ClusterView,
        stands_there: Callable[[ObjectKey], bool],
        gained: Collection[tuple[str, str]] | None = None,
    ) -> list[ObjectKey]:
        """Objects that may move since a cluster is described otherwise (docs/sources.md#scheduling).

        `gained` are the APIs that it newly serves when nothing but those changed. `stands_there` is true for an object
        that runs in it and does not depend on where others run. Such objects are skipped where possible: most changes
        are taints, which affect only objects that are not placed there yet.
        """
        outside = self.options.plugins.outside
        found: list[ObjectKey] = []
        for group in self._groups.values():
            if gained is not None and group.api not in gained:
                continue
            matches, matched = group.matches(after), before is not None and group.matches(before)
            if matches and matched and group.stays and not outside:
                found += [key for key in group.members if not stands_there(key)]
            elif matches or matched:
                found += group.members
        return found

    def roomier(
        self, names: Collection[str], clusters: Mapping[str, ClusterView], rooms: Mapping[str, ClusterView]
    ) -> list[ObjectKey]:
        """Objects that the present room of the named clusters may help.

        `clusters` are all with their reported capacity, `rooms` the same without reservations.
        """
        if not self.active:
            return []
        found: list[ObjectKey] = []
        described, self._described = self._described, set()
        left = COUNTED_AT_ONCE
        for group in self._short.values():
            if group.now is None:
                if left <= 0:
                    # Trying them one after the other shows as much, and they are counted then.
                    found += group.members
                    continue
                left -= len(clusters)
            found += group.review(names, described, rooms if group.interest.less_given else clusters, self.options)
        return found

    def tried(
        self,
        key: ObjectKey,
        clusters: Mapping[str, ClusterView],
        rooms: Mapping[str, ClusterView],
        pending: Collection[str],
        change: int,
        count: bool,
    ) -> None:
        """An object is tried in vain with what is there now, after so many changes of rooms.

        `pending` are clusters whose present capacity was not compared yet; without `count` a group whose capacity was
        not counted so far stays uncounted.
        """
        group = self._short.get(self._filed.get(key, ()))
        if group is None or not self.active or group.as_of == change:
            return
        views = rooms if group.interest.less_given else clusters
        if group.now is None and not count:
            return
        if group.now is None:
            now = group.count(views, self.options)
            # Others of the group may have been tried before those changed.
            group.base = {name: room for name, room in now.items() if name not in pending}
        else:
            # Room that was taken since it was called for: what is there now is all that was of no use.
            base = {name: min(group.base.get(name, 0), room) for name, room in group.now.items()}
            for name in pending:
                base[name] = min(base.get(name, 0), group.room_of(views.get(name), self.options) or 0)
            group.base = base
        group.as_of = change


def _matchers(interest: QueueingHint) -> tuple[ClusterMatcher, ...]:
    """What the clusters have to match; of an object that is placed only the affinity in force without its overflow."""
    view = interest.view
    found: list[ClusterMatcher] = []
    for term in interest.terms:
        matchers = view.placement.tiers(term, view.workload).matchers
        if not matchers:
            return ()
        found += matchers if interest.failed else matchers[:1]
    return tuple(found)

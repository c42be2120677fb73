"""Keeps the capacity that placements reserved and that a cluster's status does not show yet, so it is not given twice.

A replica is reserved from its placement on until the rolled-up status of its cluster counts it, its placement or
binding ends, or LONGEST seconds passed. Everything follows from the last facts of an object, so a restart comes to the
same sums. What changes is added to and taken off sums per cluster; nothing here grows with the number of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.events.placement import TargetCluster
from schemas.events.rollup import ClusterStatusItem
from schemas.keys import ObjectKey
from services._rules.capacity.cluster_totals import ClusterTotals
from services._rules.capacity.general_estimate import Capacity
from services._rules.capacity.reserved import Needs, PodClass

LONGEST: Final = 300.0
"""Seconds after which a replica that never shows gives its room back (docs/sources.md#reservations)."""
_ALL: Final = 2**31 - 1
_NOWHERE: Final[Mapping[str, int]] = {}


class _Held(Struct, gc=False):
    """Replicas of one object in one cluster: not shown yet, and shown but perhaps not in the summary."""

    hidden: int = 0
    settling: int = 0
    shown_at: float = 0.0

    @property
    def units(self) -> int:
        return self.hidden + self.settling


_NOTHING: Final = _Held()


class _Object(Struct):
    """The facts about one object that its reservation depends on."""

    uid: str = ""
    needs: Needs = ()
    placed_uid: str = ""
    placed_at: float = 0.0
    targets: tuple[TargetCluster, ...] = ()
    promised: tuple[TargetCluster, ...] | None = None
    shown_uid: str = ""
    shown: Mapping[str, int] = _NOWHERE
    held: dict[str, _Held] = field(default_factory=dict)
    counted: Needs = ()
    """The needs by which `held` stands in the sums."""
    expired: bool = False


class ReservationLedger:
    """Reservations of all objects; `settle`: how many seconds a summary may lag behind a status (0: not at all)."""

    def __init__(self, settle: float = 0.0) -> None:
        self._settle = settle
        self._objects: dict[ObjectKey, _Object] = {}
        self._sums: dict[str, ClusterTotals] = {}
        self._settling: dict[str, set[ObjectKey]] = {}
        self._ends: list[tuple[float, ObjectKey]] = []
        self._changes = 0
        self.changed: set[str] = set()
        """Clusters whose sums changed; a derived cache reads and clears it."""

    def __eq__(self, other: object) -> bool:
        """Whether the same objects hold the same."""
        return isinstance(other, ReservationLedger) and self._objects == other._objects

    __hash__ = None  # type: ignore[assignment]

    def taken(self, cluster: str) -> Mapping[PodClass, int]:
        """Pods by kind that a cluster was given and does not show yet."""
        sums = self._sums.get(cluster)
        return sums.totals if sums is not None else {}

    def left_of(self, cluster: str, capacity: Capacity) -> Capacity:
        """The capacity of a cluster without what it was given and does not show yet."""
        sums = self._sums.get(cluster)
        return sums.taken_off(capacity) if sums is not None else capacity

    def version(self, cluster: str) -> int:
        """Number that grows with every change of what a cluster holds."""
        sums = self._sums.get(cluster)
        return sums.version if sums is not None else 0

    def since(self, cluster: str, position: int) -> list[tuple[PodClass, int]]:
        """Pods by kind that a cluster was given after a position of the log, promises included."""
        sums = self._sums.get(cluster)
        return sums.since(position) if sums is not None else []

    def next_end(self) -> float | None:
        """When the next reservation may end by itself, in seconds since 1970."""
        return self._ends[0][0] if self._ends else None

    def requested(self, key: ObjectKey, uid: str, needs: Needs, seq: int) -> None:
        """An object is asked for, and what one replica takes; no needs: it is not asked for, or is no workload."""
        found = self._objects.get(key)
        if found is None:
            if not needs:
                return
            found = self._objects[key] = _Object()
        # Of what is not asked for a fresh start knows nothing either.
        uid = uid if needs else ""
        if needs and (found.uid, found.needs) == (uid, needs):
            return
        found.uid, found.needs = uid, needs
        self._recount(key, found, seq)
        self._drop_blank(key, found)

    def placed(self, key: ObjectKey, uid: str, targets: Iterable[TargetCluster], at: float, seq: int) -> bool:
        """An object was placed at a time (seconds since 1970), without targets nowhere; whether room was released."""
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = _Object()
        clusters = tuple(targets)
        as_promised = found.promised == clusters and found.placed_at == at and uid == found.uid and not found.expired
        self._end_promise(key, found, seq)
        found.placed_uid, found.placed_at, found.expired = uid, at, False
        found.targets = clusters
        # What was promised is held already.
        return False if as_promised else self._recount(key, found, seq)

    def promise(self, key: ObjectKey, targets: Iterable[TargetCluster], at: float) -> None:
        """A placement was decided and is on its way to the log."""
        found = self._objects.get(key)
        if found is None:
            return
        found.promised = tuple(targets)
        found.placed_at, found.expired = at, False
        self._recount(key, found, None)

    def withdraw(self, key: ObjectKey) -> None:
        """Void the promise of an object: it is decided again."""
        found = self._objects.get(key)
        if found is None or found.promised is None:
            return
        self._end_promise(key, found, None)
        self._recount(key, found, None)

    def withdraw_all(self) -> None:
        """No promise holds any more: another instance decides now."""
        for key, found in self._objects.items():
            if found.promised is not None:
                self._end_promise(key, found, None)
                self._recount(key, found, None)

    def shown(self, key: ObjectKey, uid: str, items: Iterable[ClusterStatusItem], at: float, seq: int) -> bool:
        """The clusters report an object; whether room was released by it."""
        counts: Mapping[str, int] = {item.cluster: count for item in items if (count := replicas_shown(item))}
        uid, counts = (uid, counts) if counts else ("", _NOWHERE)
        found = self._objects.get(key)
        if found is None:
            if not counts:
                return False
            found = self._objects[key] = _Object()
        if found.shown == counts and found.shown_uid == uid:
            return False
        found.shown_uid, found.shown = uid, counts
        # Pods that go away long after the placement are no pods that are still to come.
        found.expired = found.expired or at >= found.placed_at + LONGEST
        released = self._recount(key, found, seq, at)
        self._drop_blank(key, found)
        return released

    def summarised(self, cluster: str, at: float) -> bool:
        """The summary of a cluster was taken again: what showed before is in it; whether room was released."""
        released = False
        for key in list(self._settling.get(cluster, ())):
            found = self._objects[key]
            held = found.held[cluster]
            if held.shown_at <= at:
                self._set(key, found, cluster, _Held(held.hidden), None)
                released = True
        return released

    def removed(self, cluster: str) -> None:
        """A cluster is no member any more; a later one of that name holds nothing of it."""
        for key, found in self._objects.items():
            if cluster in found.held:
                self._set(key, found, cluster, _Held(), None)
        self._sums.pop(cluster, None)
        self.changed.add(cluster)

    def expire(self, now: float) -> bool:
        """Let go of what has been held for too long; whether room was released."""
        released = False
        while self._ends and self._ends[0][0] <= now:
            _, key = heappop(self._ends)
            found = self._objects.get(key)
            if found is None or not found.held:
                continue
            if found.placed_at + LONGEST <= now:
                found.expired = True
            for cluster, held in list(found.held.items()):
                if held.settling and held.shown_at + self._settle <= now:
                    self._set(key, found, cluster, _Held(held.hidden), None)
                    released = True
            released = self._recount(key, found, None) or released
        return released

    def forget(self, key: ObjectKey) -> None:
        """An object is gone from the log."""
        found = self._objects.pop(key, None)
        if found is not None:
            self._end_promise(key, found, None)
            for cluster in list(found.held):
                self._set(key, found, cluster, _Held(), None)

    def _drop_blank(self, key: ObjectKey, found: _Object) -> None:
        """Of an object that is not asked for, placed or shown a fresh start knows nothing."""
        if not (found.needs or found.placed_uid or found.shown or found.promised or found.held):
            del self._objects[key]

    def _recount(self, key: ObjectKey, found: _Object, seq: int | None, shown_at: float | None = None) -> bool:
        """Bring what an object holds in line with its facts; whether it gave something back."""
        promised = found.promised
        if promised is None:
            promised = found.targets if found.placed_uid == found.uid else ()
        targets = _counts(promised)
        shown = found.shown if found.shown_uid == found.uid else _NOWHERE
        if found.counted != found.needs:
            for cluster, held in found.held.items():
                self._add(cluster, found.counted, -held.units)
                self._add(cluster, found.needs, held.units)
            found.counted = found.needs
        released = waits = False
        for cluster in {**targets, **found.held} if found.held else targets:
            target = targets.get(cluster, 0) if found.needs else 0
            before = found.held.get(cluster) or _NOTHING
            hidden = 0 if found.expired else max(0, target - shown.get(cluster, 0))
            settling, at = min(before.settling, max(0, target - hidden)), before.shown_at
            if shown_at is not None and self._settle and hidden < before.hidden:
                settling, at = min(settling + before.hidden - hidden, target - hidden), shown_at
                heappush(self._ends, (at + self._settle, key))
            if hidden == before.hidden and settling == before.settling and at == before.shown_at:
                continue
            released = released or hidden + settling < before.units
            waits = waits or hidden > before.hidden
            self._set(key, found, cluster, _Held(hidden, settling, at), seq)
        if waits:
            heappush(self._ends, (found.placed_at + LONGEST, key))
        return released

    def _set(self, key: ObjectKey, found: _Object, cluster: str, after: _Held, seq: int | None) -> None:
        before = found.held.get(cluster)
        grown = after.units - (before.units if before is not None else 0)
        if after.units:
            found.held[cluster] = after
        elif before is not None:
            del found.held[cluster]
        if after.settling:
            self._settling.setdefault(cluster, set()).add(key)
        elif before is not None and before.settling:
            self._settling[cluster].discard(key)
        self._add(cluster, found.needs, grown)
        if grown > 0:
            self._of(cluster).give(key, found.needs, grown, seq if found.promised is None else None)

    def _add(self, cluster: str, needs: Needs, units: int) -> None:
        if units and needs:
            sums = self._of(cluster)
            sums.add(needs, units)
            self._changes += 1
            sums.version = self._changes
            self.changed.add(cluster)

    def _end_promise(self, key: ObjectKey, found: _Object, seq: int | None) -> None:
        """What was promised is on the log now, at a position; None: it never will be."""
        for target in found.promised or ():
            self._of(target.name).keep(key, seq)
        found.promised = None

    def _of(self, cluster: str) -> ClusterTotals:
        sums = self._sums.get(cluster)
        if sums is None:
            sums = self._sums[cluster] = ClusterTotals()
        return sums


def _counts(targets: Iterable[TargetCluster]) -> dict[str, int]:
    return {target.name: 1 if target.replicas is None else target.replicas for target in targets}


class _Status(Struct, rename="camel"):
    replicas: int | None = None
    active: int | None = None
    succeeded: int | None = None


_status: Final[Any] = msgspec.json.Decoder(_Status).decode


def replicas_shown(item: ClusterStatusItem) -> int:
    """How many replicas a cluster reports: pods that are there, in its nodes' or its waiting pods' requests."""
    if isinstance(item.status, msgspec.UnsetType):
        return _ALL if item.health == "Healthy" else 0
    try:
        status = _status(item.status)
    except msgspec.MsgspecError:
        return 0
    if status.replicas is not None:
        return max(0, int(status.replicas))
    if status.active is not None or status.succeeded is not None:
        return max(0, (status.active or 0) + (status.succeeded or 0))
    return _ALL if item.health == "Healthy" else 0

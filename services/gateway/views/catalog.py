"""Holds the served objects by name, and the latest changes for watches: one collection per kind.

Every shown object is an entry that never changes; a change replaces it. The ring keeps the latest changes with the
entry before and after, so that a watch can begin at any revision above the floor; below it the answer is 410.

Revisions of bindings are positions in FACTS. Works are shown from two streams, whose order differs from gateway to
gateway: their revision is the sum of both positions with a tag of the instance in the lowest bits, and a watch that
comes over from another instance is answered 410 Gone, so that its client lists again and misses no change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, Literal

from schemas.manifest import Manifest
from services.gateway.state import Bound, Copy, GatewayState, Place
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works

TAG_BITS: Final = 8
RING: Final = 4096

Name = tuple[str, str]
Kind = Literal["ResourceBinding", "ClusterResourceBinding", "Work"]


class Gone(Exception):
    """A revision from which no watch can be continued any more: the client has to list again."""


class Entry:
    """One object as it is shown at one revision; `raw` caches its JSON by API version."""

    __slots__ = ("created", "place", "raw", "revision", "source", "version")

    def __init__(self, place: Place, source: Bound | Copy, revision: int, version: str, created: float) -> None:
        self.place = place
        self.source = source
        self.revision = revision
        self.version = version
        self.created = created
        self.raw: dict[str, bytes] = {}

    @property
    def name(self) -> Name:
        """Namespace and name under which the object is shown."""
        if isinstance(self.source, Bound):
            return self.place.key.namespace, bindings.name_of(self.source)
        return works.namespace_of(self.source), works.name_of(self.source)

    @property
    def labels(self) -> dict[str, str]:
        """Labels, for selectors."""
        return bindings.labels_of(self.source) if isinstance(self.source, Bound) else works.labels_of(self.source)

    @property
    def uid(self) -> str:
        """uid of the template behind it: another one makes it another object."""
        if isinstance(self.source, Bound):
            return bindings.asked(self.source).uid
        return works.fact_of(self.source).uid

    def metadata(self) -> Manifest:
        """metadata of the object."""
        if isinstance(self.source, Bound):
            return bindings.metadata_of(self.source, self.version)
        return works.metadata_of(self.source, self.version, self.created)

    def cells(self) -> list[str]:
        """Values of the columns between name and age."""
        return bindings.cells(self.source) if isinstance(self.source, Bound) else works.cells(self.source)


class Change:
    """One step of a collection: `before` is None for an addition, `after` for a deletion.

    `revision` is where a client stands after it, `version` the same as text; the entry of a deletion keeps its state.
    """

    __slots__ = ("after", "before", "revision", "version")

    def __init__(self, revision: int, version: str, before: Entry | None, after: Entry | None) -> None:
        self.revision = revision
        self.version = version
        self.before = before
        self.after = after


class Collection:
    """All objects of one kind, by name and in its order, and their latest changes."""

    def __init__(self, kind: Kind, tag: int | None = None, ring: int = RING) -> None:
        self.kind = kind
        self.entries: dict[Name, Entry] = {}
        self.names: list[Name] = []
        self.revision = 0
        self.floor = 0
        self._tag = tag
        self._ring: list[Change] = []
        self._capacity = ring
        self._named: dict[Place, Name] = {}
        self._rivals: dict[Name, dict[Place, Entry]] = {}

    # -- revisions as clients see them

    def version(self, revision: int | None = None) -> str:
        """A revision as resourceVersion; the present one by default."""
        revision = self.revision if revision is None else revision
        return str(revision if self._tag is None else revision << TAG_BITS | self._tag)

    def parse(self, version: int) -> tuple[int, bool]:
        """Revision behind a resourceVersion, and whether this instance can have given it out."""
        if self._tag is None:
            return version, True
        return version >> TAG_BITS, version & ((1 << TAG_BITS) - 1) == self._tag

    # -- reading

    def select(self, namespace: str = "", after: Name | None = None) -> Iterator[Entry]:
        """Entries in the order of their names, of one namespace or all; `after` names the last one not wanted."""
        names = self.names
        start = bisect_left(names, (namespace, "")) if namespace else 0
        if after is not None:
            start = max(start, bisect_right(names, after))
        for index in range(start, len(names)):
            name = names[index]
            if namespace and name[0] != namespace:
                return
            yield self.entries[name]

    def since(self, revision: int) -> list[Change]:
        """Changes after a revision; raises Gone when they are not all kept."""
        if revision < self.floor:
            raise Gone
        start = bisect_right(self._ring, revision, key=_revision_of)
        return self._ring[start:]

    # -- changing

    def start(self, revision: int) -> None:
        """Everything put in so far was there from the beginning: watches start at this revision."""
        self._ring.clear()
        self.floor = self.revision = revision

    def advance(self, revision: int) -> None:
        """The log moved on; nothing else changed here."""
        self.revision = max(self.revision, revision)

    def put(self, entry: Entry) -> None:
        """Add an object or replace it."""
        place, name = entry.place, entry.name
        known = self._named.get(place)
        if known is not None and known != name:
            self.remove(place, entry.revision)
        self._named[place] = name
        holder = self.entries.get(name)
        if holder is not None and holder.place != place:
            # Kinds of two groups can want one name (reference 01 §1.12): the older object has it.
            rivals = self._rivals.setdefault(name, {})
            if (holder.created, holder.place.key) <= (entry.created, place.key):
                rivals[place] = entry
                return
            rivals.pop(place, None)
            rivals[holder.place] = holder
        self._show(name, entry)

    def remove(self, place: Place, revision: int) -> None:
        """Show an object no longer."""
        name = self._named.pop(place, None)
        if name is None:
            return
        rivals = self._rivals.get(name)
        holder = self.entries.get(name)
        if holder is None or holder.place != place:
            if rivals is not None:
                rivals.pop(place, None)
            return
        del self.entries[name]
        del self.names[bisect_left(self.names, name)]
        self._record(revision, _last_seen(holder, revision, self.version(revision)), None)
        if rivals:
            heir = min(rivals.values(), key=lambda entry: (entry.created, entry.place.key))
            del rivals[heir.place]
            self._show(name, Entry(heir.place, heir.source, revision, self.version(revision), heir.created))

    def _show(self, name: Name, entry: Entry) -> None:
        before = self.entries.get(name)
        if before is None:
            insort(self.names, name)
        elif before.uid != entry.uid or before.place != entry.place:
            self._record(entry.revision, _last_seen(before, entry.revision, entry.version), None)
            before = None
        self.entries[name] = entry
        self._record(entry.revision, before, entry)

    def _record(self, revision: int, before: Entry | None, after: Entry | None) -> None:
        self.revision = max(self.revision, revision)
        # Positions come in order; only after a new start of the pump could an older one follow.
        revision = max(revision, self._ring[-1].revision if self._ring else self.floor)
        self._ring.append(Change(revision, self.version(revision), before, after))
        if len(self._ring) >= 2 * self._capacity:
            dropped = self._ring[: -self._capacity]
            self.floor = dropped[-1].revision
            self._ring = self._ring[-self._capacity :]


def _last_seen(entry: Entry, revision: int, version: str) -> Entry:
    """A deleted object as a watch shows it: its last state, at the revision of its deletion."""
    return Entry(entry.place, entry.source, revision, version, entry.created)


def _revision_of(change: Change) -> int:
    return change.revision


class Catalog:
    """The three collections and what brings them up to date with the projection."""

    def __init__(self, tag: int, ring: int = RING) -> None:
        self.bindings = Collection("ResourceBinding", ring=ring)
        self.cluster_bindings = Collection("ClusterResourceBinding", ring=ring)
        self.works = Collection("Work", tag=tag & ((1 << TAG_BITS) - 1), ring=ring)

    def refresh(self, state: GatewayState) -> bool:
        """Take in what changed in the projection; whether anything did."""
        changed, state.changed = state.changed, {}
        for place, revision in sorted(changed.items(), key=lambda item: item[1]):
            if place.cluster:
                self._refresh_copy(state, place, revision)
            else:
                self._refresh_binding(state, place, revision)
        self.bindings.advance(state.facts)
        self.cluster_bindings.advance(state.facts)
        self.works.advance(state.revision)
        return bool(changed)

    def start(self, state: GatewayState) -> None:
        """The projection is complete: what is shown now was there from the beginning."""
        self.refresh(state)
        self.bindings.start(state.facts)
        self.cluster_bindings.start(state.facts)
        self.works.start(state.revision)

    def _refresh_binding(self, state: GatewayState, place: Place, revision: int) -> None:
        collection = self.bindings if place.key.namespace else self.cluster_bindings
        bound = state.objects.get(place.key)
        if bound is None or not bound.shown:
            collection.remove(place, revision)
            return
        created = bindings.asked(bound).created_at
        collection.put(Entry(place, bound, bound.revision, collection.version(bound.revision), created))

    def _refresh_copy(self, state: GatewayState, place: Place, revision: int) -> None:
        copy = state.copy(place.cluster, place.key)
        if copy is None or not copy.shown:
            self.works.remove(place, revision)
            return
        bound = state.objects.get(place.key)
        created = copy.since
        if bound is not None and bound.binding is not None and bound.binding.uid == works.fact_of(copy).uid:
            # The same on every gateway and after every start, which the time of the first rendering is not.
            created = bound.binding.created_at or created
        self.works.put(Entry(place, copy, revision, self.works.version(revision), created))

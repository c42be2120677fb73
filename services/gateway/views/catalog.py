"""Holds the served objects by name, and the latest changes for watches: one collection per kind.

Every shown object is an entry that never changes; a change replaces it. The collections are projections as the API
server has them, whose history is bounded by `ring` events: below its floor the answer is 410 Gone.

Revisions of bindings are positions in FACTS. Works are shown from two streams, whose order differs from gateway to
gateway: their revision is the sum of both positions with a tag of the instance in the lowest bits, and a watch that
comes over from another instance is answered 410 Gone, so that its client lists again and misses no change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.store import store_port
from services.apiserver.store.object_index import Cursor, Projection
from services.apiserver.store.store_port import Compacted, Key
from services.gateway.state import Bound, Copy, GatewayState, Place
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from services.gateway.views.owner_views import with_owners
from services.gateway.views.view_shapes import GROUP

TAG_BITS: Final = 8
RING: Final = 4096


class Entry(store_port.Entry):
    """One object as it is shown at one revision; `json` caches its JSON by API version."""

    __slots__ = ("created", "json", "place", "source")

    def __init__(self, place: Place, source: Bound | Copy, revision: int, created: float) -> None:
        super().__init__(bindings.key_of(source) if isinstance(source, Bound) else works.key_of(source), b"", revision)
        self.place = place
        self.source = source
        self.created = created
        self.json: dict[str, bytes] = {}

    @property
    def version(self) -> str:
        """The revision as resourceVersion."""
        return str(self.revision)

    @property
    def uid(self) -> str:
        """uid of the template behind it: another one makes it another object."""
        return (bindings.asked(self.source) if isinstance(self.source, Bound) else works.fact_of(self.source)).uid

    @property
    def obj(self) -> Manifest:
        """The object as far as selectors and Tables read it; its whole JSON is not needed for them."""
        if isinstance(self.source, Bound):
            return bindings.summary(self.source, self.version)
        return works.summary(self.source, self.version, self.created)

    def look(self) -> Manifest:
        """The same; it is not cached."""
        return self.obj

    def at(self, revision: int) -> Entry:
        """The same state under another revision."""
        return Entry(self.place, self.source, revision, self.created)

    @property
    def age(self) -> tuple[float, object]:
        """What entries that want one name are ordered by."""
        return self.created, self.place.key


class Collection(Projection):
    """All objects of one kind and their latest changes."""

    def __init__(self, resource: str, tag: int | None = None, ring: int = RING) -> None:
        super().__init__(ring)
        self._resource = resource
        self._tag = tag
        self._named: dict[Place, Key] = {}
        self._rivals: dict[Key, dict[Place, Entry]] = {}

    def __len__(self) -> int:
        return self.bucket(GROUP, self._resource).count

    # -- revisions as clients see them

    def number(self, position: int) -> int:
        """The revision that clients see of a position of the log."""
        return position if self._tag is None else position << TAG_BITS | self._tag

    def own(self, revision: int) -> int:
        """The revision of this instance at the position of any instance's."""
        return revision if self._tag is None else self.number(revision >> TAG_BITS)

    def list_at(
        self, group: str, resource: str, namespace: str, revision: int, start: str = ""
    ) -> Iterable[store_port.Entry]:
        """States as of a revision; raises Compacted below the floor and for one of another instance."""
        self._refuse_foreign(revision)
        return super().list_at(group, resource, namespace, revision, start)

    def watch(self, group: str, resource: str, revision: int) -> Cursor:
        """Events after a revision; raises Compacted below the floor and for one of another instance."""
        self._refuse_foreign(revision)
        return super().watch(group, resource, revision)

    def _refuse_foreign(self, revision: int) -> None:
        if self.own(revision) != revision:
            raise Compacted(revision, self.floor(GROUP, self._resource))

    # -- changing

    def start(self, position: int) -> None:
        """Everything put in so far was there from the beginning: watches start at this position."""
        self.revision = self.number(position)
        self.bucket(GROUP, self._resource).forget_before(self.revision)

    def advance(self, position: int) -> None:
        """The log moved on; nothing else changed here."""
        self.revision = max(self.revision, self.number(position))

    def put(self, place: Place, source: Bound | Copy, position: int, created: float) -> None:
        """Add an object or replace it."""
        # Positions come in order; only after a new start of the pump could an older one follow.
        entry = Entry(place, source, max(self.number(position), self.revision), created)
        key = entry.key
        known = self._named.get(place)
        if known is not None and known != key:
            self.remove(place, position)
        self._named[place] = key
        holder = self._holder(key)
        if holder is not None and holder.place != place:
            # Kinds of two groups can want one name (docs/sources.md#names): the older object has it.
            rivals = self._rivals.setdefault(key, {})
            if holder.age <= entry.age:
                rivals[place] = entry
                return
            rivals.pop(place, None)
            rivals[holder.place] = holder
        if holder is not None and (holder.uid != entry.uid or holder.place != place):
            self.apply_delete(holder.at(entry.revision))
        self.apply_put(entry)

    def remove(self, place: Place, position: int) -> None:
        """Show an object no longer."""
        key = self._named.pop(place, None)
        if key is None:
            return
        rivals = self._rivals.get(key)
        holder = self._holder(key)
        if holder is None or holder.place != place:
            if rivals is not None:
                rivals.pop(place, None)
            return
        revision = max(self.number(position), self.revision)
        self.apply_delete(holder.at(revision))
        if rivals:
            heir = min(rivals.values(), key=lambda entry: entry.age)
            del rivals[heir.place]
            self.apply_put(heir.at(revision))

    def _holder(self, key: Key) -> Entry | None:
        found = self.get(key)
        assert found is None or isinstance(found, Entry)
        return found


class Catalog:
    """The three collections and what brings them up to date with the projection."""

    def __init__(self, tag: int, ring: int = RING) -> None:
        self.bindings = Collection(bindings.NAMESPACED, ring=ring)
        self.cluster_bindings = Collection(bindings.CLUSTER_WIDE, ring=ring)
        self.works = Collection(works.WORKS, tag=tag & ((1 << TAG_BITS) - 1), ring=ring)

    def __getitem__(self, resource: str) -> Collection:
        match resource:
            case bindings.NAMESPACED:
                return self.bindings
            case bindings.CLUSTER_WIDE:
                return self.cluster_bindings
            case _:
                return self.works

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
        # An owner that moved changes it, too.
        collection.put(
            place, with_owners(state, bound), max(bound.revision, revision), bindings.asked(bound).created_at
        )

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
        self.works.put(place, copy, revision, created)

"""The index: objects of all members by kind and member, with lookups, pages, and news for those who follow a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services.search.index.cached_from import CACHED_FROM
from services.search.index.change_history import ChangeHistory, Entry, number_of
from services.search.index.member_part import MemberPart, Stored, key_of
from services.search.index.object_packing import Packing
from services.search.index.object_shapes import Shapes
from services.search.index.questions import EVERYTHING, Question
from services.search.registries.member_facts import Gvr

_encode = msgspec.json.Encoder().encode
_manifest = msgspec.json.Decoder(Manifest)


class Change(Struct, frozen=True, gc=False):
    """What became of one object: ADDED, MODIFIED or DELETED; `stored` is its last state."""

    type: str
    gvr: Gvr
    cluster: str
    key: str
    stored: Stored


class Found(Struct, frozen=True, gc=False):
    """An object and where it is."""

    cluster: str
    key: str
    stored: Stored


class Audience(Protocol):
    """Who hears of every change as it comes, in one order over all members."""

    def told(self, entry: Entry) -> None:
        """An object changed."""
        ...

    def reached(self) -> None:
        """A member was read up to a later version, without a change."""
        ...

    def broke_off(self, cluster: str, why: str) -> None:
        """What follows of a member is not told completely."""
        ...


class Shelf:
    """One kind in all members."""

    def __init__(self, gvr: Gvr) -> None:
        self.gvr = gvr
        self.shapes = Shapes()
        self.packing = Packing()
        self.parts: dict[str, MemberPart] = {}
        self.listeners: dict[Callable[[Change], None], None] = {}
        self.history = ChangeHistory()
        self.silent: set[str] = set()
        """Members that do not tell of changes at the moment."""
        self.audience: Audience | None = None
        self._order: list[str] = []

    def pack(self, cluster: str, manifest: Manifest) -> Stored:
        """An object of a member as it is kept; the manifest is changed."""
        metadata = manifest["metadata"]
        metadata.pop("managedFields", None)
        metadata["annotations"] = {**(metadata.get("annotations") or {}), CACHED_FROM: cluster}
        return Stored(self.packing.pack(_encode(manifest)), self.shapes.of(manifest))

    def data(self, stored: Stored) -> bytes:
        """Its JSON, with the annotation CACHED_FROM and without managedFields."""
        return self.packing.unpack(stored.data)

    def manifest(self, stored: Stored) -> Manifest:
        """It, decoded."""
        return _manifest.decode(self.data(stored))

    def new_part(self, cluster: str, kind: str) -> MemberPart:
        """An empty part that is not shown yet."""
        return MemberPart(cluster, kind, self.shapes)

    def show(self, part: MemberPart) -> None:
        """Show a complete part instead of the one of before, at once."""
        before = self.parts.get(part.cluster)
        self.parts[part.cluster] = part
        if before is None:
            self._order = sorted(self.parts)
        self.history.begin(part)
        self.silent.discard(part.cluster)
        if self.listeners:
            self._tell_difference(before, part)
        if before is not None:
            before.clear()
            self._broke_off(part.cluster, "it was listed again")

    def remove(self, cluster: str) -> None:
        """Forget the part of a member."""
        part = self.parts.pop(cluster, None)
        if part is None:
            return
        self._order = sorted(self.parts)
        self.history.end(cluster)
        self.silent.discard(cluster)
        if self.listeners:
            for key, stored in part.objects.items():
                self._tell("DELETED", cluster, key, stored)
        part.clear()
        self._broke_off(cluster, "it is not read any more")

    def put(self, part: MemberPart, key: str, stored: Stored) -> None:
        """Take one change of a shown part, whose version is that of the change."""
        before = part.put(key, stored)
        change = "ADDED" if before is None else "MODIFIED"
        self._record(change, part, key, stored, before)
        self._tell(change, part.cluster, key, stored)

    def drop(self, part: MemberPart, key: str, last: Stored) -> None:
        """Take one deletion of a shown part; `last` is the state that it was deleted in."""
        if (before := part.drop(key)) is not None:
            self._record("DELETED", part, key, last, before)
            self._tell("DELETED", part.cluster, key, last)

    def reached(self, part: MemberPart) -> None:
        """Take in up to which version a shown part was read."""
        version = number_of(part.version)
        if version is not None and self.history.reached(part.cluster, version) and self.audience is not None:
            self.audience.reached()

    def fell_silent(self, cluster: str, why: str) -> None:
        """A member tells of no changes for now."""
        if cluster in self.parts:
            self.silent.add(cluster)
            self._broke_off(cluster, why)

    def heard(self, cluster: str) -> None:
        """A member tells of changes again, after all that were."""
        self.silent.discard(cluster)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a function with every change until the returned function is called."""
        self.listeners[listener] = None

        def forget() -> None:
            self.listeners.pop(listener, None)

        return forget

    @property
    def clusters(self) -> list[str]:
        """Members with a part, in order; not to be changed."""
        return self._order

    @property
    def kind(self) -> str:
        """The kind as manifests name it; empty where no member has a part."""
        return next((part.kind for part in self.parts.values()), "")

    def find(self, namespace: str, name: str) -> list[Found]:
        """The objects of a name, by member."""
        key = key_of(namespace, name)
        found = ((cluster, self.parts[cluster].objects.get(key)) for cluster in self._order)
        return [Found(cluster, key, stored) for cluster, stored in found if stored is not None]

    def each(self, question: Question = EVERYTHING, after: tuple[str, str] = ("", "")) -> Iterator[Found | str]:
        """Objects after a place, by member and key. What changes meanwhile is left out where it is gone.

        The name of each member comes before its objects, whose keys are looked through at once: others may have a turn.
        """
        shapes = None if question.shape is None else self.shapes.matching(question.name, question.shape)
        for cluster in list(self._order):
            if cluster < after[0] or (question.cluster is not None and not question.cluster(cluster)):
                continue
            part = self.parts.get(cluster)
            if part is None:
                continue
            yield cluster
            for key in part.keys_where(shapes, question):
                if cluster == after[0] and key <= after[1]:
                    continue
                # Of the part that is shown by now: who reads on may do so long after the first one.
                shown = self.parts.get(cluster)
                stored = shown.objects.get(key) if shown is not None else None
                if stored is None or (question.shape is not None and not question.shape(stored.shape)):
                    continue
                yield Found(cluster, key, stored)

    def _record(self, change: str, part: MemberPart, key: str, stored: Stored, before: Stored | None) -> None:
        version = number_of(part.version)
        if version is None or part.cluster not in self.history.versions:
            return
        entry = Entry(change, part.cluster, key, stored, before, version)
        self.history.add(entry)
        if self.audience is not None:
            self.audience.told(entry)

    def _broke_off(self, cluster: str, why: str) -> None:
        if self.audience is not None:
            self.audience.broke_off(cluster, why)

    def _tell_difference(self, before: MemberPart | None, after: MemberPart) -> None:
        old = before.objects if before is not None else {}
        for key, stored in old.items():
            if key not in after.objects:
                self._tell("DELETED", after.cluster, key, stored)
        for key, stored in after.objects.items():
            known = old.get(key)
            if known is None:
                self._tell("ADDED", after.cluster, key, stored)
            elif known.data != stored.data and self.data(known) != self.data(stored):
                self._tell("MODIFIED", after.cluster, key, stored)

    def _tell(self, change: str, cluster: str, key: str, stored: Stored) -> None:
        for listener in list(self.listeners):
            listener(Change(change, self.gvr, cluster, key, stored))


class MemberIndex:
    """All kinds. A shelf stays when it is empty: who follows a member holds it."""

    def __init__(self) -> None:
        self._shelves: dict[Gvr, Shelf] = {}

    def shelf(self, gvr: Gvr) -> Shelf:
        """The shelf of a kind, made on first mention."""
        found = self._shelves.get(gvr)
        if found is None:
            found = self._shelves[gvr] = Shelf(gvr)
        return found

    def known(self, gvr: Gvr) -> Shelf | None:
        """The shelf of a kind; None where no member has a part of it."""
        found = self._shelves.get(gvr)
        return found if found is not None and found.parts else None

    def shelves(self) -> list[Shelf]:
        """Those that hold something, by the text of their kind."""
        return sorted((shelf for shelf in self._shelves.values() if shelf.parts), key=lambda shelf: str(shelf.gvr))

    def of(self, cluster: str) -> list[Gvr]:
        """The kinds of which a member has a part."""
        return [gvr for gvr, shelf in self._shelves.items() if cluster in shelf.parts]

    def remove(self, gvr: Gvr, cluster: str) -> None:
        """Forget one kind of one member."""
        shelf = self._shelves.get(gvr)
        if shelf is not None:
            shelf.remove(cluster)

    @property
    def objects(self) -> int:
        """How many objects there are."""
        return sum(len(part.objects) for shelf in self._shelves.values() for part in shelf.parts.values())

    @property
    def bytes(self) -> int:
        """What they take in memory, about."""
        return sum(part.bytes for shelf in self._shelves.values() for part in shelf.parts.values())

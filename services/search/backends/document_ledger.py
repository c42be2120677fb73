"""What a search backend has acknowledged, and what it lacks: written once, never lost, never written twice. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from services.search.backends.object_documents import Document
from services.search.registries.member_facts import Gvr

MOST_ACTIONS: Final = 500
MOST_BYTES: Final = 4 << 20
"""Bytes of one bulk request."""


class Place(Struct, frozen=True, gc=False):
    """Where an object is."""

    gvr: Gvr
    cluster: str
    key: str


class Ack(Struct, gc=False):
    """What is known of a document; `seen` is the comparison in which the backend last showed it."""

    place: Place
    index: str
    digest: int
    version: int
    seen: int = 0


class Action(Struct, frozen=True):
    """One document to write, or to delete where there is no body."""

    id: str
    index: str
    place: Place | None
    version: int = 0
    body: bytes = b""


class DocumentLedger:
    """Places that have to be looked at, each once, however often they change while the backend is away."""

    def __init__(self) -> None:
        self.acked: dict[str, Ack] = {}
        self._uids: dict[Place, str] = {}
        self._due: dict[Place, None] = {}
        self._strays: dict[str, tuple[str, int]] = {}
        self._comparison = 0

    @property
    def due(self) -> int:
        """How much waits to be written or deleted."""
        return len(self._due) + len(self._strays)

    def mark(self, place: Place) -> None:
        """An object changed, came or went."""
        self._due[place] = None

    def mark_all(self, gvr: Gvr, cluster: str) -> None:
        """Look at every document of one kind of one member."""
        for place in self._uids:
            if place.gvr == gvr and place.cluster == cluster:
                self._due[place] = None

    def postpone(self, action: Action) -> None:
        """Look at a place after all others: its document is not taken at the moment."""
        if action.place in self._due:
            del self._due[action.place]
            self._due[action.place] = None

    def batch(self, document: Callable[[Place], Document | None], most: int = MOST_ACTIONS) -> list[Action]:
        """The next actions; `document` is what there is at a place now. What needs none is looked at no more."""
        actions: list[Action] = []
        size = 0
        for place in list(self._due):
            if len(actions) >= most or size >= MOST_BYTES:
                return actions
            found = self._actions_at(place, document(place))
            if not found:
                del self._due[place]
            actions += found
            size += sum(len(action.body) for action in found)
        if not actions:
            # Only now: what was taken for one may be an object whose turn to be written came.
            strays = list(self._strays.items())[:most]
            actions += [Action(uid, index, None, version) for uid, (index, version) in strays]
        return actions

    def _actions_at(self, place: Place, found: Document | None) -> list[Action]:
        known = self._uids.get(place, "")
        actions: list[Action] = []
        if known and (found is None or known != found.id) and known in self.acked:
            actions.append(Action(known, self.acked[known].index, place, self.acked[known].version))
        if found is not None:
            self._strays.pop(found.id, None)
            ack = self.acked.get(found.id)
            if ack is None or ack.digest != hash(found.body) or ack.place != place:
                actions.append(Action(found.id, found.index, place, found.version, found.body))
        return actions

    def done(self, action: Action) -> None:
        """An action was acknowledged, or is refused for good; the place is looked at again if it changed since."""
        if action.body and action.place is not None:
            before = self._uids.get(action.place, "")
            if before != action.id and (left := self.acked.get(before)) is not None and left.place == action.place:
                # Its deletion was sent beside and not acknowledged.
                self._strays[before] = left.index, left.version
                del self.acked[before]
            digest = hash(action.body)
            self.acked[action.id] = Ack(action.place, action.index, digest, action.version, self._comparison)
            self._uids[action.place] = action.id
            return
        self._strays.pop(action.id, None)
        ack = self.acked.get(action.id)
        if ack is not None and ack.place == action.place:
            del self.acked[action.id]
            if self._uids.get(ack.place) == action.id:
                del self._uids[ack.place]

    def begin_comparison(self) -> None:
        """What the backend shows from now on is there."""
        self._comparison += 1

    def shown(self, uid: str, index: str, version: int, *, ours: bool) -> None:
        """The backend has a document; `ours` says whether its member and kind are written to it and completely read."""
        ack = self.acked.get(uid)
        if ack is not None:
            ack.seen = self._comparison
        elif ours:
            self._strays[uid] = index, version

    def end_comparison(self, indices: Iterable[str]) -> int:
        """Documents of these indices that the backend did not show are lost: they are written again; how many."""
        compared = set(indices)
        lost = [uid for uid, ack in self.acked.items() if ack.seen != self._comparison and ack.index in compared]
        for uid in lost:
            ack = self.acked.pop(uid)
            self._uids.pop(ack.place, None)
            self._due[ack.place] = None
        return len(lost)

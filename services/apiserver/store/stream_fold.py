"""Folds the messages of a store's stream into the present state and recent history that all reads are answered from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog

from services._kit.content.envelope_encryption import KeyUnavailable, key_id
from services.apiserver.store.object_index import Projection
from services.apiserver.store.secret_encryption import ClearSecrets, Sealing
from services.apiserver.store.store_port import Entry, Key, StoreUnavailable
from services.apiserver.store.subject_names import DELETED, PREV, floor_subject, key_of

log = structlog.get_logger(__name__)


class Folding(Projection):
    """What a store knows; no input or output."""

    def __init__(self, stream: str, prefix: str, history: int, sealing: Sealing | None) -> None:
        super().__init__(history)
        self._name = stream
        self._prefix = prefix
        self._sealing = sealing
        self._clear = ClearSecrets()
        self._unreadable: dict[Key, tuple[int, str]] = {}
        self._tombs: dict[Key, int] = {}
        """Last sequence of every object that is deleted, oldest deletion first."""

    def _fold(self, subject: str, sequence: int, headers: Mapping[str, str], data: bytes) -> None:
        """Take one message of the stream, in order."""
        if subject == floor_subject(self._prefix):
            self._forget_before(msgspec.json.decode(data, type=dict[str, int]))
            self.revision = sequence
            return
        key = key_of(self._prefix, subject)
        if key is None:
            self.revision = sequence
            return
        deleted = DELETED in headers
        try:
            entry = Entry(key, self._opened(key, bytes(data), sequence, deleted), sequence)
        except KeyUnavailable as e:
            # A later state of the object may be readable; watching from before this one would miss something.
            self._unreadable[key] = sequence, "" if deleted else e.description
            bucket = self.bucket(key.group, key.resource)
            bucket.forget_before(sequence)
            bucket.remove(key)
            self._bury(key, sequence)
            self.revision = sequence
            return
        self._unreadable.pop(key, None)
        prev = int(headers.get(PREV, "0"))
        bucket = self.bucket(key.group, key.resource)
        if prev != self._last(key):
            # The step before this one is no longer in the stream: watching from before it would miss something.
            bucket.forget_before(sequence)
            if deleted:
                bucket.remove(key)
            else:
                bucket.set(entry)
            self.revision = sequence
            self._mark(key, sequence, deleted=deleted)
        else:
            self._take(entry, deleted=deleted)

    def _last(self, key: Key) -> int:
        """Last sequence of an object, of its deletion too; 0 for one that is not known."""
        known = self.get(key)
        return known.revision if known is not None else self._tombs.get(key, 0)

    def _take(self, entry: Entry, *, deleted: bool) -> None:
        """The next state of an object, whose state before is known."""
        if deleted:
            self.apply_delete(entry)
        else:
            self.apply_put(entry)
        self._mark(entry.key, entry.revision, deleted=deleted)

    def _mark(self, key: Key, sequence: int, *, deleted: bool) -> None:
        if deleted:
            self._bury(key, sequence)
        else:
            self._tombs.pop(key, None)

    def _bury(self, key: Key, sequence: int) -> None:
        self._tombs.pop(key, None)
        self._tombs[key] = sequence

    def _floors(self) -> dict[str, int]:
        return {"/".join(bucket_key): bucket.floor for bucket_key, bucket in self.buckets.items()}

    def _forget_before(self, floors: dict[str, int]) -> None:
        for name, revision in floors.items():
            group, _, resource = name.partition("/")
            self.bucket(group, resource).forget_before(revision)

    def _opened(self, key: Key, data: bytes, sequence: int, deleted: bool) -> bytes:
        """An object as it was before it was encrypted; raises Locked."""
        if key_id(data) is None:
            if self._sealing is not None and self._sealing.covers(key):
                self._clear.found(key, sequence, deleted=deleted)
            return data
        if self._sealing is None:
            raise KeyUnavailable(
                0, f"{key.resource} {key.namespace}/{key.name} is encrypted, and this server has no keys"
            )
        self._clear.present.discard(key)
        return self._sealing.open(key, data)

    def _judge_unreadable(self, *, drop: bool) -> None:
        """Refuse to start without objects that exist: clients of this server would take them for deleted."""
        lost = [why for _, why in self._unreadable.values() if why]
        self._unreadable.clear()
        if lost and not drop:
            raise StoreUnavailable(
                f"{len(lost)} objects on stream {self._name} cannot be decrypted, the first: {lost[0]}; "
                "bring back the key file, or give them up with FLEETLOG_APISERVER_DROP_UNREADABLE=1"
            )
        for why in lost:
            log.error("object given up", stream=self._name, reason=why)

"""Garbage collection by ownerReferences: in the background, in the foreground, or orphaning."""

from typing import Any

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.core.cloning import clone
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Entry, Event, Key
from services.apiserver.writes.delete_options import FOREGROUND, ORPHAN, DeleteOptions
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.object_writes import Objects

_OWNERS = b'"ownerReferences":'
_DELETED = b'"deletionTimestamp":'


class GarbageCollector:
    """Follows every write; keeps which objects name which owner."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter
        self._queue: WorkQueue[Key] = WorkQueue(self._handle)
        self._dependents: dict[str, set[Key]] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._generation = -1
        self._call = Call(LOOPBACK, manager="garbage-collector")

    async def start(self) -> None:
        """Index all objects, enqueue every dependent once, then follow changes."""
        store = self._objects.store
        store.listen(self._on_event)
        for stored in {k.store_key for k in self._objects.registry.all() if not k.virtual}:
            group, _, plural = stored.partition("/")
            for entry in list(store.list(group, plural)):
                self._index(entry, None)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if not event.deleted:
            self._index(entry, event.prev)
            return
        meta = entry.obj["metadata"]
        for owner in meta.get("ownerReferences") or ():
            found = self._dependents.get(owner["uid"])
            if found is not None:
                found.discard(entry.key)
                if not found:
                    del self._dependents[owner["uid"]]
            self._wake_owner(owner, entry.key)
        for key in self._dependents.get(meta["uid"], ()):
            self._queue.add(key)

    def _index(self, entry: Entry, prev: Entry | None) -> None:
        # Most objects have no owners and are not being deleted, which their bytes show without decoding.
        raw = entry.raw
        if _OWNERS not in raw and _DELETED not in raw and (prev is None or _OWNERS not in prev.raw):
            return
        meta = entry.obj["metadata"]
        owners = meta.get("ownerReferences") or ()
        before = (prev.obj["metadata"].get("ownerReferences") or ()) if prev is not None else ()
        if owners != before:
            for owner in before:
                self._dependents.get(owner["uid"], set()).discard(entry.key)
                self._wake_owner(owner, entry.key)
            for owner in owners:
                self._dependents.setdefault(owner["uid"], set()).add(entry.key)
            if owners:
                self._queue.add(entry.key)
        if meta.get("deletionTimestamp") and {ORPHAN, FOREGROUND} & set(meta.get("finalizers") or ()):
            self._queue.add(entry.key)

    def _wake_owner(self, owner: Manifest, dependent: Key) -> None:
        key = self._owner_key(owner, dependent.namespace)
        if key is None:
            return
        found = self._objects.store.get(key)
        if found is not None and found.obj["metadata"].get("deletionTimestamp"):
            self._queue.add(key)

    def _owner_kind(self, owner: Manifest) -> Kind | None:
        return self._objects.registry.by_api_version(owner.get("apiVersion", ""), owner.get("kind", ""))

    def _owner_key(self, owner: Manifest, namespace: str) -> Key | None:
        kind = self._owner_kind(owner)
        return None if kind is None else self._objects.key(kind, namespace, owner.get("name", ""))

    def _kind(self, key: Key) -> Kind | None:
        registry = self._objects.registry
        if self._generation != registry.generation:
            self._generation = registry.generation
            # The first of a kind's versions counts.
            self._kinds = {
                (kind.store_group, kind.resource.plural): kind
                for kind in reversed([*registry.all()])
                if not kind.virtual
            }
        return self._kinds.get((key.group, key.resource))

    async def _handle(self, key: Key) -> float | None:
        entry = self._objects.store.get(key)
        kind = self._kind(key)
        if entry is None or kind is None:
            return None
        meta = entry.obj["metadata"]
        finalizers = meta.get("finalizers") or ()
        if meta.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                await self._orphan(kind, entry)
            elif FOREGROUND in finalizers:
                await self._foreground(kind, entry)
            return None
        owners = meta.get("ownerReferences") or ()
        if owners:
            await self._follow(kind, entry, owners)
        return None

    def _is_gone(self, owner: Manifest, namespace: str) -> bool:
        """Whether an owner of a served kind does not exist any more.

        An unknown kind counts as there, and so does an object of a namespace as the owner of one of none: which
        namespace is meant cannot be told.
        """
        kind, key = self._owner_kind(owner), self._owner_key(owner, namespace)
        if kind is None or key is None or (kind.resource.namespaced and not namespace):
            return False
        found = self._objects.store.get(key)
        return found is None or found.obj["metadata"]["uid"] != owner["uid"]

    async def _follow(self, kind: Kind, entry: Entry, owners: Any) -> None:
        """Delete a dependent whose owners are all gone; drop gone owners of one that still has another."""
        gone = [o for o in owners if self._is_gone(o, entry.key.namespace)]
        if not gone:
            return
        if len(gone) == len(owners):
            meta = entry.obj["metadata"]
            body = {"propagationPolicy": _policy_of(meta), "preconditions": {"uid": meta["uid"]}}
            await self._delete(kind, entry.key, DeleteOptions(body, {}))
            return
        uids = {o["uid"] for o in gone}
        await self._drop(kind, entry.key, uids)

    async def _delete(self, kind: Kind, key: Key, options: DeleteOptions) -> None:
        await self._deleter.discard(kind, key, options, self._call, (404, 409))

    async def _drop(self, kind: Kind, key: Key, uids: set[str]) -> None:
        """Remove references to owners."""

        def make(old: Manifest) -> Manifest:
            new = clone(old)
            kept = [o for o in new["metadata"].get("ownerReferences") or [] if o["uid"] not in uids]
            if kept:
                new["metadata"]["ownerReferences"] = kept
            else:
                new["metadata"].pop("ownerReferences", None)
            return new

        await self._update(kind, key, make)

    async def _update(self, kind: Kind, key: Key, make: Any) -> None:
        try:
            await self._objects.update(kind, key.namespace, key.name, make, self._call, patch=True)
        except ApiError as e:
            if e.code != 404:
                raise

    async def _orphan(self, kind: Kind, entry: Entry) -> None:
        uid = entry.obj["metadata"]["uid"]
        for key in list(self._dependents.get(uid, ())):
            dependent = self._kind(key)
            if dependent is not None:
                await self._drop(dependent, key, {uid})
        await self._finish(kind, entry.key, ORPHAN)

    async def _foreground(self, kind: Kind, entry: Entry) -> None:
        uid = entry.obj["metadata"]["uid"]
        blocking = False
        for key in list(self._dependents.get(uid, ())):
            found, dependent = self._objects.store.get(key), self._kind(key)
            if found is None or dependent is None:
                continue
            meta = found.obj["metadata"]
            owners = meta.get("ownerReferences") or ()
            mine = [o for o in owners if o["uid"] == uid]
            if any(o["uid"] != uid and not self._is_gone(o, key.namespace) for o in owners):
                await self._drop(dependent, key, {uid})
                continue
            if not meta.get("deletionTimestamp"):
                body = {"propagationPolicy": "Foreground", "preconditions": {"uid": meta["uid"]}}
                await self._delete(dependent, key, DeleteOptions(body, {}))
            if self._objects.store.get(key) is None or not any(o.get("blockOwnerDeletion") for o in mine):
                continue
            if not self._owns(meta["uid"], entry):
                blocking = True
        if not blocking:
            await self._finish(kind, entry.key, FOREGROUND)

    def _owns(self, uid: str, entry: Entry) -> bool:
        """Whether an object is above another one among its owners: such two would wait for each other for ever."""
        seen: set[str] = set()
        waiting = [entry]
        while waiting:
            at = waiting.pop()
            for owner in at.obj["metadata"].get("ownerReferences") or ():
                if owner["uid"] == uid:
                    return True
                key = self._owner_key(owner, at.key.namespace)
                above = None if key is None else self._objects.store.get(key)
                if above is not None and owner["uid"] not in seen and above.obj["metadata"]["uid"] == owner["uid"]:
                    seen.add(owner["uid"])
                    waiting.append(above)
        return False

    async def _finish(self, kind: Kind, key: Key, finalizer: str) -> None:
        def make(old: Manifest) -> Manifest:
            new = clone(old)
            kept = [f for f in new["metadata"].get("finalizers") or [] if f != finalizer]
            if kept:
                new["metadata"]["finalizers"] = kept
            else:
                new["metadata"].pop("finalizers", None)
            return new

        await self._update(kind, key, make)


def _policy_of(meta: Manifest) -> str:
    """How the dependents of an object that goes with its owners are treated: its finalizers may say so."""
    finalizers = meta.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"

"""Finishes the deletion of namespaces: their content goes first, then the namespace."""

from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.store.store_port import Conflict, Event, Key
from services.apiserver.writes.delete_options import DeleteOptions
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.object_writes import Objects

_FINALIZER = "kubernetes"
_BACKGROUND = {"propagationPolicy": "Background"}
"""Some kinds orphan their dependents unless told otherwise; those go with the namespace as well."""


class NamespaceController:
    """Follows terminating namespaces."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter
        self._queue: WorkQueue[str] = WorkQueue(self._handle)
        self._terminating: set[str] = set()

    async def start(self) -> None:
        """Go on with what was terminating, then follow changes."""
        store = self._objects.store
        store.listen(self._on_event)
        for entry in list(store.list("", "namespaces")):
            if entry.obj["metadata"].get("deletionTimestamp"):
                self._terminating.add(entry.key.name)
                self._queue.add(entry.key.name)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.group == "" and key.resource == "namespaces":
            if event.deleted:
                self._terminating.discard(key.name)
            elif event.entry.obj["metadata"].get("deletionTimestamp"):
                self._terminating.add(key.name)
                self._queue.add(key.name)
        elif event.deleted and key.namespace in self._terminating:
            self._queue.add(key.namespace)

    async def _handle(self, name: str) -> float | None:
        store, registry = self._objects.store, self._objects.registry
        entry = store.get(Key("", "namespaces", "", name))
        if entry is None or not entry.obj["metadata"].get("deletionTimestamp"):
            return None
        call = Call(LOOPBACK, manager="namespaces")
        remaining, refused = 0, None
        for stored, kind in {k.store_key: k for k in registry.all() if not k.virtual}.items():
            if not kind.resource.namespaced:
                continue
            group, _, plural = stored.partition("/")
            for item in list(store.list(group, plural, name)):
                if not item.obj["metadata"].get("deletionTimestamp"):
                    try:
                        await self._deleter.discard(kind, item.key, DeleteOptions(_BACKGROUND, {}), call)
                    except ApiError as e:
                        # An object that is protected from deletion must not keep the others.
                        refused = e
            remaining += sum(1 for _ in store.list(group, plural, name))
        if refused is not None:
            raise refused
        if remaining:
            return None
        await self._finalize(name, call)
        return None

    async def _finalize(self, name: str, call: Call) -> None:
        store = self._objects.store
        entry = store.get(Key("", "namespaces", "", name))
        if entry is None:
            return
        spec = dict(entry.obj.get("spec") or {})
        left = [f for f in spec.get("finalizers") or [] if f != _FINALIZER]
        try:
            if left or entry.obj["metadata"].get("finalizers"):
                if left != spec.get("finalizers"):
                    spec["finalizers"] = left
                    written = await store.put(entry.key, {**entry.obj, "spec": spec}, entry.revision)
                    self._objects.audit.write(call, "update", written, entry, "finalize")
                return
            gone = await store.delete(entry.key, entry.obj, entry.revision)
            self._objects.audit.write(call, "delete", gone, entry)
        except Conflict:
            self._queue.add(name)

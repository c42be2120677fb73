"""Serves what CustomResourceDefinitions define: accepts names, registers kinds, and cleans up after deletions."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.core.request_context import LOOPBACK, Call, now, timestamp
from services.apiserver.crds import conditions
from services.apiserver.crds.custom_kinds import CustomKind, custom_kinds
from services.apiserver.crds.definition import FINALIZER, is_true
from services.apiserver.crds.kind import CustomResourceDefinition
from services.apiserver.crds.rules import compile_ahead
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Conflict, Entry, Event, Key
from services.apiserver.writes.deletion import DeleteOptions, Deleter
from services.apiserver.writes.object_writes import Objects

_COMPILER = "definitions"
GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"


def own_kind(registry: Registry) -> None:
    """Serve definitions by the kind that knows their rules, in every version in which they are served."""
    for version in registry.versions(GROUP):
        kind = registry.find(GROUP, version, PLURAL)
        if kind is not None and not isinstance(kind, CustomResourceDefinition):
            own = CustomResourceDefinition(kind.resource, kind.schema_name)
            own.store_version = "v1"
            registry.add_kind(own)


def _mark(crd: Manifest) -> object:
    """What the kinds of a definition are made from."""
    return crd["spec"], (crd.get("status") or {}).get("acceptedNames"), crd["metadata"].get("generation")


def _lazy(kind: CustomKind) -> Iterator[tuple[Any, str, Any]]:
    """What a kind computes when it is first used, as far as it was not: owner, name and property."""
    for part in (*kind.definition.versions.values(), kind):
        for name, value in vars(type(part)).items():
            if isinstance(value, cached_property) and name not in vars(part):
                yield part, name, value


def _is_compiled(kind: CustomKind) -> bool:
    return next(_lazy(kind), None) is None


def _compile(kinds: list[CustomKind]) -> None:
    """Compute what kinds otherwise compute when they are first used."""
    for kind in kinds:
        for part, name, value in list(_lazy(kind)):
            # Not by the attribute, whose lock all of them share.
            vars(part)[name] = value.func(part)


class Definitions:
    """Follows definitions in the store."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter
        self._queue: WorkQueue[str] = WorkQueue(self._handle)
        self._served: dict[str, tuple[object, list[CustomKind]]] = {}
        self._made: dict[str, tuple[object, list[CustomKind]]] = {}
        """Kinds that were compiled and are not served yet."""
        deleter.first[f"{GROUP}/{PLURAL}"] = conditions.terminating

    async def start(self) -> None:
        """Serve the definitions that exist, then follow changes."""
        store = self._objects.store
        store.listen(self._on_event)
        for entry in list(store.list(GROUP, PLURAL)):
            crd = entry.obj
            if conditions.is_established(crd):
                self._serve(crd)
            self._queue.add(entry.key.name)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.group == GROUP and key.resource == PLURAL:
            # At once: the caller of DELETE may go on with a POST.
            if not event.deleted and is_true(event.entry.obj, "Terminating"):
                self._close(key.name)
            self._queue.add(key.name)
        elif event.deleted and self._served:
            # The last object of a definition that waits for its deletion.
            owner = f"{key.resource}.{key.group}"
            found = self._objects.store.get(Key(GROUP, PLURAL, "", owner))
            if found is not None and found.obj["metadata"].get("deletionTimestamp"):
                self._queue.add(owner)

    def _of_group(self, group: str) -> list[Entry]:
        """The definitions of a group; they are named after it."""
        return [e for e in self._objects.store.list(GROUP, PLURAL) if e.key.name.partition(".")[2] == group]

    async def _handle(self, name: str) -> float | None:
        store = self._objects.store
        entry = store.get(Key(GROUP, PLURAL, "", name))
        if entry is None:
            self._unserve(name)
            self._mark_group(name.partition(".")[2], name)
            return None
        crd = entry.obj
        if crd["metadata"].get("deletionTimestamp"):
            return await self._clean(entry)
        others = [e.obj for e in self._of_group(crd["spec"]["group"])]
        new = conditions.settled(crd, others, timestamp(now()))
        if conditions.is_established(new):
            await self._compile(new, len(entry.raw))
            self._serve(new)
        else:
            self._unserve(name)
        if new is not crd:
            await self._write(entry, new)
        for kind in self._served.get(name, (None, []))[1]:
            if kind.version.rules is not None:
                await compile_ahead(kind.version.rules)
        return None

    def _mark_group(self, group: str, but: str) -> None:
        """A name became free; others of the group may take it now."""
        for entry in self._of_group(group):
            if entry.key.name != but:
                self._queue.add(entry.key.name)

    async def _write(self, entry: Entry, new: Manifest) -> Entry | None:
        try:
            written = await self._objects.store.put(entry.key, new, entry.revision)
        except Conflict:
            self._queue.add(entry.key.name)
            return None
        self._objects.audit.write(Call(LOOPBACK, manager="definitions"), "update", written, entry, "status")
        return written

    async def _clean(self, entry: Entry) -> float | None:
        """Delete the objects of a terminating definition, then the definition itself."""
        crd, store = entry.obj, self._objects.store
        if FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return None
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        call = Call(LOOPBACK, manager="definitions")
        served = self._served.get(entry.key.name, (None, []))[1]
        for item in list(store.list(group, plural)):
            if served and not item.obj["metadata"].get("deletionTimestamp"):
                await self._deleter.discard(served[0], item.key, DeleteOptions({}, {}), call)
            elif not served:
                await store.delete(item.key, item.obj, item.revision)
        remaining = sum(1 for _ in store.list(group, plural))
        current = store.get(entry.key)
        if current is None:
            return None
        new = conditions.deleting_instances(current.obj, remaining, timestamp(now()))
        if remaining:
            if new != current.obj:
                await self._write(current, new)
            return 5.0
        self._unserve(entry.key.name)
        try:
            if new["metadata"].get("finalizers"):
                await store.put(current.key, new, current.revision)
            else:
                gone = await store.delete(current.key, current.obj, current.revision)
                self._objects.audit.write(call, "delete", gone, current)
        except Conflict:
            self._queue.add(entry.key.name)
        return None

    async def _compile(self, crd: Manifest, size: int) -> None:
        """Compile the schemas of a definition, aside of the event loop where they are large."""
        name, mark = crd["metadata"]["name"], _mark(crd)
        made, kinds = self._served.get(name) or self._made.get(name) or (None, [])
        if made != mark:
            kinds = list(custom_kinds(crd))
            self._made = {name: (mark, kinds)}
        if not all(_is_compiled(kind) for kind in kinds):
            await self._objects.aside.keep(_COMPILER, size, _compile, kinds)

    def _serve(self, crd: Manifest) -> None:
        name, mark = crd["metadata"]["name"], _mark(crd)
        have = self._served.get(name)
        if have is not None and have[0] == mark:
            return
        self._unserve(name)
        made, kinds = self._made.pop(name, (None, []))
        if made != mark:
            kinds = list(custom_kinds(crd))
        for kind in kinds:
            self._objects.registry.add_kind(kind)
        self._served[name] = (mark, kinds)
        if is_true(crd, "Terminating"):
            self._close(name)

    def _close(self, name: str) -> None:
        """Take no new objects of a definition that terminates."""
        for kind in self._served.get(name, (None, []))[1]:
            kind.closing = "custom resource definition is terminating"

    def _unserve(self, name: str) -> None:
        for kind in self._served.pop(name, (None, []))[1]:
            resource = kind.resource
            self._objects.registry.remove_kind(resource.group, resource.version, resource.plural)

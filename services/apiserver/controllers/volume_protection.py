"""Lets go of claims, volumes and VolumeAttributesClasses that are deleted, once nothing uses them."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.admission.builtin_plugins import PROTECTED_BY
from services.apiserver.core.cloning import clone
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.store.store_port import Entry, Event, Key
from services.apiserver.writes.object_writes import Objects

_PODS: Final = ("", "pods")
_CLAIMS: Final = ("", "persistentvolumeclaims")
_VOLUMES: Final = ("", "persistentvolumes")
_CLASSES: Final = ("storage.k8s.io", "volumeattributesclasses")
_WORDS: Final = (b'"persistentVolumeClaim":', b'"ephemeral":')


class VolumeProtection:
    """Takes the finalizer of `VolumeProtected` from what is deleted and not in use.

    A claim is in use as long as a pod on a node mounts it, a volume while it is bound, and a class as long as a claim
    or a volume names it.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._deleted: dict[tuple[str, str], set[Key]] = {place: set() for place in (_CLAIMS, _VOLUMES, _CLASSES)}
        """What waits for its end, by group and resource."""
        self._mounts: dict[Key, set[Key]] = {}
        """By pod the claims that it mounts."""
        self._pods: dict[Key, set[Key]] = {}
        """By claim the pods that mount it."""
        self._queue: WorkQueue[Key] = WorkQueue(self._handle)
        self._call = Call(LOOPBACK, manager="volume-protection")

    async def start(self) -> None:
        """Look at every object once, then follow changes."""
        store = self._objects.store
        places = (_PODS, _CLAIMS, _VOLUMES, _CLASSES)
        store.listen(self._on_event, *places)
        for place in places:
            for entry in list(store.list(*place)):
                self._take(entry)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key[:2] == _PODS:
            before = self._mounts.get(key, set())
            if event.deleted:
                self._mount(key, set())
            else:
                self._take(event.entry)
            for claim in (before - self._mounts.get(key, set())) & self._deleted[_CLAIMS]:
                self._queue.add(claim)
            return
        if event.deleted:
            self._deleted[key[:2]].discard(key)
        else:
            self._take(event.entry)
        if key[:2] != _CLASSES:
            # It may have been the last that names a class.
            for waiting in self._deleted[_CLASSES]:
                self._queue.add(waiting)

    def _take(self, entry: Entry) -> None:
        key = entry.key
        if key[:2] == _PODS:
            # Most pods mount none, which their bytes show without decoding.
            named = any(word in entry.raw for word in _WORDS)
            if named or key in self._mounts:
                self._mount(key, claims_of(entry.obj) if named else set())
        elif entry.obj["metadata"].get("deletionTimestamp"):
            self._deleted[key[:2]].add(key)
            self._queue.add(key)

    def _mount(self, pod: Key, names: set[str]) -> None:
        claims = {Key(*_CLAIMS, pod.namespace, name) for name in names}
        for claim in self._mounts.pop(pod, set()) - claims:
            self._pods[claim].discard(pod)
            if not self._pods[claim]:
                del self._pods[claim]
        for claim in claims:
            self._pods.setdefault(claim, set()).add(pod)
        if claims:
            self._mounts[pod] = claims

    async def _handle(self, key: Key) -> float | None:
        entry = self._objects.store.get(key)
        kind = self._objects.registry.find(key.group, "v1", key.resource)
        if entry is None or kind is None or _freed(kind.store_key, entry.obj) is entry.obj or self._used(entry):
            return None

        def make(old: Manifest) -> Manifest:
            return clone(_freed(kind.store_key, old))

        try:
            await self._objects.update(kind, key.namespace, key.name, make, self._call, patch=True)
        except ApiError as error:
            if error.code != 404:
                raise
        return None

    def _used(self, entry: Entry) -> bool:
        key = entry.key
        if key[:2] == _CLAIMS:
            return key in self._pods
        if key[:2] == _VOLUMES:
            return (entry.obj.get("status") or {}).get("phase") == "Bound"
        word = f'"{key.name}"'.encode()
        held = (one for place in (_CLAIMS, _VOLUMES) for one in self._objects.store.list(*place) if word in one.raw)
        return any(key.name in _classes_of(one.obj) for one in held)


def claims_of(pod: Manifest) -> set[str]:
    """The names of the claims that a pod mounts; empty before it has a node, as it cannot start with a deleted one."""
    spec = pod.get("spec") or {}
    found = set()
    for volume in spec.get("volumes") or () if spec.get("nodeName") else ():
        if claim := volume.get("persistentVolumeClaim"):
            found.add(claim.get("claimName") or "")
        elif volume.get("ephemeral"):
            found.add(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def _classes_of(obj: Manifest) -> set[str]:
    """The VolumeAttributesClasses that a claim or a volume names: wanted, in use, or on the way."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
    return {name for name in names if name}


def _freed(store_key: str, obj: Manifest) -> Manifest:
    """The object without the finalizer; itself where it has none, or is not deleted."""
    meta, finalizer = obj["metadata"], PROTECTED_BY[store_key]
    held = meta.get("finalizers") or []
    if finalizer not in held or not meta.get("deletionTimestamp"):
        return obj
    return {**obj, "metadata": {**meta, "finalizers": [name for name in held if name != finalizer]}}

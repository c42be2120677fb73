"""The APIServices of what this server serves itself: always there, always local.

Nothing can be put in their place: requests for a built-in group are never passed on, whatever an APIService says, and
an APIService with a Service is refused for a group version that is served here.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.admission.chain import Attributes, forbidden, nothing
from services.apiserver.core.request_context import stamp
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Conflict, Entry, Event, Key, Store

APISERVICES: Final = ("apiregistration.k8s.io", "apiservices")
GROUP, PLURAL = APISERVICES
MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_AGAIN_SECONDS: Final = 1.0
"""When to look again after a definition changed: who serves it hears of the change at the same time."""


class _Wanted(Struct, frozen=True):
    """What the APIService of one group version says, and whether it is always there or as long as its definition."""

    spec: Manifest
    mark: str


class LocalApiServices:
    """Keeps them; group versions of `mapped` are answered by other servers on purpose."""

    resources = frozenset({f"{GROUP}/{PLURAL}"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, store: Store, registry: Registry, mapped: Collection[str]) -> None:
        self._store = store
        self._registry = registry
        self._mapped = frozenset(mapped)
        self.builtin = frozenset(
            (group, version)
            for group, version, _, _ in registry.group_versions()
            if f"{group}/{version}" not in self._mapped
        )
        """Group versions that only this server answers for."""
        self._changed = False
        self._queue: WorkQueue[str] = WorkQueue(self._handle)

    # -- admission

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse another server for what is served here; raises ApiError 403."""
        spec = (attributes.new or {}).get("spec") or {}
        if not spec.get("service") or spec == ((attributes.old or {}).get("spec") or {}):
            return
        name = (spec.get("group") or "", spec.get("version") or "")
        if name in self._served():
            shown = "/".join(part for part in name if part)
            raise forbidden(attributes, f"{shown} is served by this server and cannot be served by another")

    # -- following

    async def start(self) -> None:
        """Write those that are missing, as one, then follow changes."""
        wanted = self._wanted()
        names = [name for name in wanted if self._store.get(_key(name)) is None]
        missing = [(_key(name), _apiservice(name, wanted[name]), 0) for name in names]
        try:
            if missing:
                await self._store.put_all(missing)
        except Conflict:
            pass  # Another process was first.
        # Everything is looked at once more, so that nothing is missed that changed meanwhile.
        self._store.listen(self._on_event, _CRDS, (GROUP, PLURAL))
        self._queue.add("")

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key[:2] == _CRDS:
            self._changed = True
            self._queue.add("")
        elif event.deleted or not _same(event.entry.obj, self._wanted().get(key.name)):
            self._queue.add(key.name)

    def _served(self) -> set[tuple[str, str]]:
        found = {(group, version) for group, version, _, _ in self._registry.group_versions()}
        return {name for name in found if "/".join(name) not in self._mapped} | self.builtin

    def _wanted(self) -> dict[str, _Wanted]:
        """The APIServices of what is served here, by their names."""
        served = self._served()
        found = {}
        for group, version, group_priority, version_priority in self._registry.group_versions():
            if (group, version) in served:
                spec: Manifest = {"group": group} if group else {}
                spec |= {"version": version}
                priorities = {"groupPriorityMinimum": group_priority, "versionPriority": version_priority}
                mark = "onstart" if (group, version) in self.builtin else "true"
                found[f"{version}.{group}"] = _Wanted({**spec, **priorities}, mark)
        return found

    async def _handle(self, name: str) -> float | None:
        wanted = self._wanted()
        if name:
            await self._keep(name, wanted.get(name))
            return None
        for entry in list(self._store.list(GROUP, PLURAL)):
            if entry.key.name not in wanted and _managed(entry.obj):
                await self._store.delete(entry.key, entry.obj, entry.revision)
        for each, described in wanted.items():
            await self._keep(each, described)
        again, self._changed = self._changed, False
        return _AGAIN_SECONDS if again else None

    async def _keep(self, name: str, wanted: _Wanted | None) -> None:
        entry: Entry | None = self._store.get(_key(name))
        if wanted is None:
            return
        if entry is None:
            await self._store.put(_key(name), _apiservice(name, wanted), 0)
            return
        ours = (wanted.spec.get("group", ""), wanted.spec["version"]) in self.builtin
        if (ours or _managed(entry.obj)) and not _same(entry.obj, wanted):
            fresh = _apiservice(name, wanted)
            labels = {**(entry.obj["metadata"].get("labels") or {}), **fresh["metadata"]["labels"]}
            meta = {**entry.obj["metadata"], "labels": labels}
            await self._store.put(entry.key, {**fresh, "metadata": meta}, entry.revision)


def _key(name: str) -> Key:
    return Key(GROUP, PLURAL, "", name)


def _managed(obj: Manifest) -> bool:
    return (obj["metadata"].get("labels") or {}).get(MANAGED) == "true"


def _same(obj: Manifest, wanted: _Wanted | None) -> bool:
    return wanted is None or obj.get("spec") == wanted.spec


def _apiservice(name: str, wanted: _Wanted) -> Manifest:
    moment = stamp()
    condition = {"type": "Available", "status": "True", "lastTransitionTime": moment, "reason": "Local"}
    meta = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": moment, "labels": {MANAGED: wanted.mark}}
    return {
        "kind": "APIService",
        "apiVersion": f"{GROUP}/v1",
        "metadata": meta,
        "spec": wanted.spec,
        "status": {"conditions": [{**condition, "message": "Local APIServices are always available"}]},
    }

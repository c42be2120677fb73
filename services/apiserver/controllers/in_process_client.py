"""An in-process client of the server: decoded manifests, the same admission and checks as over HTTP, no bytes.

Manifests it returns are shared with the server and must not be changed; those it is given are copied.
"""

from collections.abc import AsyncIterator
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.patch import json_patch as patches
from services.apiserver.core.cloning import clone
from services.apiserver.core.request_context import LOOPBACK, Call, Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.reads.list_requests import present
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.store.store_port import Entry
from services.apiserver.writes.deletion import DeleteOptions, Deleter
from services.apiserver.writes.object_writes import Objects, Outcome


class LocalClient:
    """Reads and writes as one identity; refused requests raise ApiError."""

    def __init__(
        self, objects: Objects, deleter: Deleter, registry: Registry, user: Identity = LOOPBACK, manager: str = "local"
    ) -> None:
        self._objects = objects
        self._deleter = deleter
        self._registry = registry
        self._user = user
        self._manager = manager

    def as_user(self, user: Identity, manager: str) -> "LocalClient":
        """A client that acts as another user."""
        return LocalClient(self._objects, self._deleter, self._registry, user, manager)

    def kind(self, api_version: str, plural: str) -> Kind:
        """A served kind; raises 404."""
        group, _, version = api_version.rpartition("/")
        found = self._registry.find(group, version, plural)
        if found is None:
            raise ApiError(404, "NotFound", f"{api_version} {plural} is not served", {})
        return found

    def _call(self, verb: str) -> Call:
        return Call(self._user, verb=verb, manager=self._manager)

    @property
    def revision(self) -> int:
        """The revision that reads of this moment show."""
        return self._objects.store.revision

    def get(self, api_version: str, plural: str, namespace: str, name: str) -> Manifest | None:
        """An object, None when it does not exist."""
        kind = self.kind(api_version, plural)
        entry = self._objects.store.get(self._objects.key(kind, namespace, name))
        return None if entry is None else kind.from_store(entry.obj)

    def list(
        self, api_version: str, plural: str, namespace: str = "", *, label: str = "", field: str = "", name: str = ""
    ) -> list[Manifest]:
        """Objects that match, ordered by namespace and name; with a name only those called so, in any namespace."""
        kind = self.kind(api_version, plural)
        selection = Selection(kind, label, field)
        entries = present(self._objects.store, kind, namespace, selection)
        found = (kind.from_store(e.obj) for e in entries if not name or e.key.name == name)
        return [obj for obj in found if selection.matches(obj)]

    async def create(self, api_version: str, plural: str, obj: Manifest) -> Manifest:
        """Create an object in the namespace its metadata names."""
        kind, call = self.kind(api_version, plural), self._call("create")
        body = self._objects.decode(kind, clone(obj), None, call)
        namespace = body["metadata"].get("namespace") or ""
        return self._shown(kind, await self._objects.create(kind, namespace, body, call))

    async def update(self, api_version: str, plural: str, obj: Manifest, *, subresource: str = "") -> Manifest:
        """Replace an object; with a resourceVersion only if it is still that one."""
        kind, call = self.kind(api_version, plural), self._call("update")
        meta = obj["metadata"]

        def make(_: Manifest) -> Manifest:
            return self._objects.decode(kind, clone(obj), None, call)

        namespace = meta.get("namespace") or ""
        return self._shown(
            kind, await self._objects.update(kind, namespace, meta["name"], make, call, subresource=subresource)
        )

    async def publish(self, meta: dict[str, str], data: dict[str, str]) -> None:
        """Create a ConfigMap, or replace one with other data."""
        have = self.get("v1", "configmaps", meta["namespace"], meta["name"])
        manifest: Manifest = {"metadata": meta, "data": data}
        if have is None:
            await self.create("v1", "configmaps", manifest)
        elif have.get("data") != data:
            await self.update("v1", "configmaps", manifest)

    async def patch(
        self, api_version: str, plural: str, namespace: str, name: str, patch: Manifest, *, subresource: str = ""
    ) -> Manifest:
        """Apply a JSON merge patch."""
        kind, call = self.kind(api_version, plural), self._call("patch")

        def make(old: Manifest) -> Manifest:
            return self._objects.decode(kind, patches.merge_patch(clone(old), patch), None, call)

        outcome = await self._objects.update(
            kind, namespace, name, make, call, subresource=subresource, verb="patch", patch=True
        )
        return self._shown(kind, outcome)

    async def delete(self, api_version: str, plural: str, namespace: str, name: str, **options: Any) -> bool:
        """Delete an object with fields of DeleteOptions; returns whether it is gone (False: it is terminating)."""
        kind = self.kind(api_version, plural)
        body = DeleteOptions(options, {})
        _, gone = await self._deleter.delete(kind, namespace, name, body, self._call("delete"))
        return gone

    async def watch(
        self, api_version: str, plural: str, namespace: str = "", *, revision: int | None = None, name: str = ""
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Endless (ADDED|MODIFIED|DELETED, object); without a revision the present objects come first.

        With a name only those called so, in any namespace. Raises Compacted when the reader fell behind the history.
        """
        kind, store = self.kind(api_version, plural), self._objects.store
        if revision is None:
            revision = store.revision
            for entry in list(store.list(kind.store_group, kind.resource.plural, namespace)):
                if not name or entry.key.name == name:
                    yield "ADDED", kind.from_store(entry.obj)
        cursor = store.watch(kind.store_group, kind.resource.plural, revision)
        while True:
            for event in await cursor.next(None):
                key = event.entry.key
                if (namespace and key.namespace != namespace) or (name and key.name != name):
                    continue
                word = "DELETED" if event.deleted else "MODIFIED" if event.prev is not None else "ADDED"
                yield word, kind.from_store(event.entry.obj)

    @staticmethod
    def _shown(kind: Kind, outcome: Outcome) -> Manifest:
        return kind.from_store(outcome.obj) if isinstance(outcome, Entry) else outcome

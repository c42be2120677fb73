"""Follows our objects of every kind one cluster is given, and keeps them at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from schemas.keys import ObjectKey
from services._kit.kube import ApiResource, KubeClient, resource_path
from services._kit.kube_watch import Reflector
from services._rules.constants import LABEL_TRUE, MANAGED_LABEL

Manifest = dict[str, Any]


class UnknownKind(Exception):
    """The cluster does not serve a kind (yet); the message names it."""


class Kind:
    """One kind of one cluster: its URL, and the live objects that bear our mark."""

    def __init__(self, client: KubeClient, resource: ApiResource, on_change: Callable[[ObjectKey], None]) -> None:
        self.resource = resource
        self.live: dict[tuple[str, str], Manifest] = {}
        self._on_change = on_change
        self._told = 0  # the newest version the watch told of since the last list
        path = resource_path(resource.group, resource.version, resource.name)
        selector = {"labelSelector": f"{MANAGED_LABEL}={LABEL_TRUE}"}
        self._reflector = Reflector(
            client, path, self, params=selector, api_version=resource.api_version, kind=resource.kind
        )
        self._task = asyncio.create_task(self._reflector.run())

    def path(self, namespace: str, name: str = "") -> str:
        """URL path of the collection or of an object."""
        resource = self.resource
        return resource_path(resource.group, resource.version, resource.name, namespace, name)

    @property
    def ended(self) -> bool:
        """Whether the kind is not served any more."""
        return self._task.done()

    async def synced(self) -> None:
        """Return once a complete list was seen; raises UnknownKind when the kind turns out not to be served."""
        if self._reflector.synced.is_set():
            return
        waiting = asyncio.create_task(self._reflector.synced.wait())
        try:
            await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._reflector.synced.is_set():
            raise UnknownKind(f"{self.resource.api_version} {self.resource.kind} is not served")

    def _key(self, manifest: Manifest) -> ObjectKey:
        metadata = manifest["metadata"]
        return ObjectKey(self.resource.group, self.resource.name, metadata.get("namespace", ""), metadata["name"])

    def listed(self, objects: list[Manifest]) -> None:
        """A complete list of our objects of the kind."""
        found = {(m["metadata"].get("namespace", ""), m["metadata"]["name"]): m for m in objects}
        touched = {*self.live, *found}
        self.live = found
        self._told = 0
        for namespace, name in touched:
            self._on_change(ObjectKey(self.resource.group, self.resource.name, namespace, name))

    def changed(self, kind: str, manifest: Manifest) -> None:
        """One change of one of our objects."""
        metadata = manifest["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        self._told = max(self._told, _version(manifest))
        before = self.live.get(place)
        if before is not None and not _is_newer(manifest, before):
            return  # The echo of our own write, or what preceded it.
        if kind == "DELETED":
            self.live.pop(place, None)
        else:
            self.live[place] = manifest
        self._on_change(self._key(manifest))

    def written(self, manifest: Manifest) -> None:
        """Take the server's answer to a write as the live object, unless the watch was faster and is ahead of it."""
        if 0 < _version(manifest) <= self._told:
            return  # The watch told of this write already, and perhaps of a deletion after it.
        metadata = manifest["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        before = self.live.get(place)
        if before is None or _is_newer(manifest, before):
            self.live[place] = manifest

    def close(self) -> None:
        """Stop following."""
        self._task.cancel()


def _version(manifest: Manifest) -> int:
    """The resourceVersion as a number, 0 when it is none."""
    text = str(manifest["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


def _is_newer(manifest: Manifest, than: Manifest) -> bool:
    """Whether a state of an object follows another; versions that are no numbers only tell equal from different."""
    ours, theirs = _version(manifest), _version(than)
    if ours and theirs:
        return ours > theirs
    return bool(manifest["metadata"].get("resourceVersion") != than["metadata"].get("resourceVersion"))


class Kinds:
    """Every kind in use in one cluster."""

    def __init__(self, client: KubeClient, on_change: Callable[[ObjectKey], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._served: dict[tuple[str, str], ApiResource] | None = None
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._looking: asyncio.Task[dict[tuple[str, str], ApiResource]] | None = None

    async def of(self, api_version: str, kind: str) -> Kind:
        """A kind, followed from now on; raises UnknownKind, and ApiError or Unreachable from discovery."""
        known = self._kinds.get((api_version, kind))
        if known is not None and not known.ended:
            await known.synced()
            return known
        resource = (self._served or {}).get((api_version, kind))
        if resource is None or (known is not None and known.ended):
            resource = (await self._look()).get((api_version, kind))
        if resource is None:
            raise UnknownKind(
                f"the cluster does not serve {api_version} {kind}; propagate its CustomResourceDefinition there first"
            )
        current = self._kinds.get((api_version, kind))
        if current is None or current.ended:
            current = self._kinds[api_version, kind] = Kind(self._client, resource, self._on_change)
        await current.synced()
        return current

    async def _look(self) -> dict[tuple[str, str], ApiResource]:
        """Ask the cluster what it serves; concurrent callers share one look."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._discover())
        return await asyncio.shield(self._looking)

    async def _discover(self) -> dict[tuple[str, str], ApiResource]:
        found = await self._client.discover(preferred=False)
        self._served = {(resource.api_version, resource.kind): resource for resource in found}
        return self._served

    def close(self) -> None:
        """Stop following every kind."""
        for kind in self._kinds.values():
            kind.close()
        if self._looking is not None:
            self._looking.cancel()

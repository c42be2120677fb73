"""Follows our objects of every kind one cluster is given, and keeps them at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from schemas.keys import ObjectKey
from services._kit.kube import ApiResource, KubeClient, resource_path
from services._kit.kube_watch import AsBytes, Kept, Reflector
from services._rules.constants import LABEL_TRUE, MANAGED_LABEL

Manifest = dict[str, Any]


class UnknownKind(Exception):
    """The cluster does not serve a kind (yet); the message names it."""


Place = tuple[str, str]
"""Namespace and name."""


class Live(Mapping[Place, Manifest]):
    """The live objects of one kind, kept as bytes: a lane has thousands and looks at one at a time."""

    def __init__(self, objects: Iterable[Kept] = ()) -> None:
        self._kept = {(kept.namespace, kept.name): kept for kept in objects}

    def __getitem__(self, place: Place) -> Manifest:
        return self._kept[place].manifest

    def __contains__(self, place: object) -> bool:
        return place in self._kept

    def __iter__(self) -> Iterator[Place]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self, place: Place) -> Kept | None:
        """An object as it is kept."""
        return self._kept.get(place)

    def keep(self, kept: Kept) -> None:
        """Keep this state of an object."""
        self._kept[kept.namespace, kept.name] = kept

    def drop(self, place: Place) -> None:
        """Forget an object, if it is there."""
        self._kept.pop(place, None)


class Kind:
    """One kind of one cluster: its URL, and the live objects that bear our mark."""

    def __init__(self, client: KubeClient, resource: ApiResource, on_change: Callable[[ObjectKey], None]) -> None:
        self.resource = resource
        self.live = Live()
        self._on_change = on_change
        self._told = 0  # the newest version the watch told of since the last list
        path = resource_path(resource.group, resource.version, resource.name)
        selector = {"labelSelector": f"{MANAGED_LABEL}={LABEL_TRUE}"}
        self._reflector = Reflector(
            client, path, self, AsBytes(), params=selector, api_version=resource.api_version, kind=resource.kind
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

    def _touched(self, place: Place) -> None:
        self._on_change(ObjectKey(self.resource.group, self.resource.name, *place))

    def listed(self, objects: list[Kept]) -> None:
        """A complete list of our objects of the kind."""
        found = Live(objects)
        touched = {*self.live, *found}
        self.live = found
        self._told = 0
        for place in touched:
            self._touched(place)

    def changed(self, kind: str, found: Kept) -> None:
        """One change of one of our objects."""
        place = (found.namespace, found.name)
        self._told = max(self._told, _number(found))
        before = self.live.kept(place)
        if before is not None and not _is_newer(found, before):
            return  # The echo of our own write, or what preceded it.
        if kind == "DELETED":
            self.live.drop(place)
        else:
            self.live.keep(found)
        self._touched(place)

    def written(self, manifest: Manifest) -> None:
        """Take the server's answer to a write as the live object, unless the watch was faster and is ahead of it."""
        kept = Kept.of(manifest)
        if 0 < _number(kept) <= self._told:
            return  # The watch told of this write already, and perhaps of a deletion after it.
        before = self.live.kept((kept.namespace, kept.name))
        if before is None or _is_newer(kept, before):
            self.live.keep(kept)

    def close(self) -> None:
        """Stop following."""
        self._task.cancel()


def _number(kept: Kept) -> int:
    """The resourceVersion as a number, 0 when it is none."""
    return int(kept.version) if kept.version.isdecimal() else 0


def _is_newer(found: Kept, than: Kept) -> bool:
    """Whether a state of an object follows another; versions that are no numbers only tell equal from different."""
    ours, theirs = _number(found), _number(than)
    if ours and theirs:
        return ours > theirs
    return found.version != than.version


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

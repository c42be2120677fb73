"""Follows one kind of one Kubernetes endpoint: a complete list first, then its changes, for as long as it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog
from msgspec import Raw, Struct

from services._kit.kube import ApiError, KubeClient, Manifest, Unreachable, WatchEvent, decode

log = structlog.get_logger("kube_watch")

_PAGE = "500"


class _ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str = ""
    next: str = ""


class _List(Struct):
    metadata: _ListMeta = _ListMeta()
    items: list[Raw] | None = None


class _EventMeta(Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _EventObject(Struct):
    metadata: _EventMeta = _EventMeta()
    code: int = 0


_list = msgspec.json.Decoder(_List)
_head = msgspec.json.Decoder(_EventObject)


_members = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)

T = TypeVar("T")


class Kept(Struct, frozen=True):
    """An object as bytes, without the bookkeeping of field owners: a fraction of what it takes decoded."""

    namespace: str
    name: str
    version: str
    data: bytes

    @property
    def manifest(self) -> Manifest:
        """The object, decoded anew with every call."""
        return decode(self.data)

    @classmethod
    def of(cls, manifest: Manifest) -> Kept:
        """Keep an object that is decoded already."""
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        place = str(metadata.get("namespace", "")), str(metadata["name"])
        data = msgspec.json.encode({**manifest, "metadata": metadata})
        return cls(*place, str(metadata.get("resourceVersion", "")), data)


class Reading(Protocol[T]):
    """What becomes of the objects that a reflector sees."""

    def read(self, raw: Raw, api_version: str, kind: str) -> T:
        """One object; items of a typed list do not repeat apiVersion and kind."""
        ...

    def version(self, found: T) -> str:
        """Its resourceVersion, empty where it has none."""
        ...


class Decoded:
    """Objects as manifests, without the bookkeeping of field owners: half of the size is that."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Manifest:
        """Decode it whole."""
        manifest = decode(raw)
        manifest["metadata"].pop("managedFields", None)
        manifest.setdefault("apiVersion", api_version)
        manifest.setdefault("kind", kind)
        return manifest

    def version(self, found: Manifest) -> str:
        """From its metadata."""
        return str(found["metadata"].get("resourceVersion", ""))


class AsBytes:
    """Objects to be decoded when somebody looks at them: for those who follow many thousands."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Kept:
        """Decode what names it."""
        members = _members.decode(raw)
        metadata = _members.decode(members["metadata"])
        metadata.pop("managedFields", None)
        whole: dict[str, object] = {"apiVersion": api_version, "kind": kind, **members, "metadata": metadata}
        return Kept(
            _word(metadata, "namespace"),
            _word(metadata, "name"),
            _word(metadata, "resourceVersion"),
            msgspec.json.encode(whole),
        )

    def version(self, found: Kept) -> str:
        """As it was read."""
        return found.version


def _word(members: Mapping[str, Raw], name: str) -> str:
    raw = members.get(name)
    return "" if raw is None else _text.decode(raw)


class Follower(Protocol[T]):
    """Receives what a reflector sees, in order."""

    def listed(self, objects: list[T]) -> None:
        """Take a complete, successful list: what is missing from it does not exist."""

    def changed(self, kind: str, found: T) -> None:
        """Take one change: `kind` is ADDED, MODIFIED or DELETED."""


class Reflector(Generic[T]):
    """One list-and-watch loop; after a gap it lists again, and never takes a failed list for an empty one."""

    def __init__(
        self,
        client: KubeClient,
        path: str,
        follower: Follower[T],
        reading: Reading[T],
        *,
        params: Mapping[str, str] | None = None,
        api_version: str = "",
        kind: str = "",
        on_batch: Callable[[], None] | None = None,
        on_gone: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._follower = follower
        self._reading = reading
        self._params = dict(params or {})
        self._api_version = api_version
        self._kind = kind
        self._on_batch = on_batch
        self._on_gone = on_gone
        self._failures = 0
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled, or until the kind is no longer served (404)."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
                self._failures = 0
            except ApiError as error:
                if error.status == 404:
                    if self._on_gone is not None:
                        await self._on_gone()
                    return
                if error.status == 410:
                    version = ""
                    continue
                await self._pause(error)
                version = ""
            except Unreachable as error:
                await self._pause(error)

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        delay = min(0.1 * 2 ** min(self._failures, 8), 15.0)
        log.warning("watch_interrupted", path=self._path, error=str(error), retry_in_seconds=delay)
        await asyncio.sleep(delay)

    async def _list(self) -> str:
        objects: list[T] = []
        params = {**self._params, "limit": _PAGE}
        while True:
            page = _list.decode(await self._client.request("GET", self._path, params=params))
            objects.extend(self._reading.read(raw, self._api_version, self._kind) for raw in page.items or ())
            if not page.metadata.next:
                break
            params["continue"] = page.metadata.next
        self._follower.listed(objects)
        self.synced.set()
        if self._on_batch is not None:
            self._on_batch()
        return page.metadata.resource_version

    async def _watch(self, version: str) -> str:
        async for events in self._client.watch(self._path, version, params=self._params):
            self._failures = 0
            for event in events:
                version = self._take(event, version)
                if not version:
                    return ""
            if self._on_batch is not None:
                self._on_batch()
        return version

    def _take(self, event: WatchEvent, version: str) -> str:
        if event.type == "ERROR":
            head = _head.decode(event.object)
            if head.code != 410:
                log.warning("watch_error", path=self._path, code=head.code)
            return ""
        if event.type == "BOOKMARK":
            return _head.decode(event.object).metadata.resource_version or version
        found = self._reading.read(event.object, self._api_version, self._kind)
        self._follower.changed(event.type, found)
        return self._reading.version(found) or version

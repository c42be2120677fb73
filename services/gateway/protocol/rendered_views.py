"""Turns entries into response bytes: objects, lists, Tables, metadata only, and frames of watches.

JSON of an object is encoded once per revision and API version and shared by all requests; `Encoder` bounds what is
kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Raw

from schemas.manifest import Manifest
from services.gateway.protocol.served_resources import Resource
from services.gateway.protocol.status_answers import Form
from services.gateway.state import Bound, Copy
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from services.gateway.views.catalog import Entry
from services.gateway.views.view_shapes import age, encode

CACHE_BYTES: Final = 32 << 20


class BlobSource(Protocol):
    """Where manifests come from that facts only name."""

    async def get_many(self, digests: Iterable[str]) -> Mapping[str, bytes]:
        """Bytes by digest; digests without bytes are left out."""


class Encoder:
    """Cache of the JSON of objects; `limit` bounds its bytes."""

    def __init__(self, blobs: BlobSource, limit: int = CACHE_BYTES) -> None:
        self._blobs = blobs
        self._limit = limit
        self._kept: OrderedDict[tuple[int, str], tuple[Entry, int]] = OrderedDict()
        self.kept_bytes = 0
        self.encoded = 0
        self.shared = 0

    async def many(self, resource: Resource, entries: Sequence[Entry]) -> list[bytes]:
        """JSON of objects in the version of a resource; fetches what their facts do not carry."""
        version = resource.api_version
        missing = [entry for entry in entries if version not in entry.raw]
        digests = [digest for entry in missing if (digest := _needed(entry))]
        blobs = await self._blobs.get_many(dict.fromkeys(digests)) if digests else {}
        for entry in missing:
            if version not in entry.raw:
                self._encode(entry, version, blobs)
        self.shared += len(entries) - len(missing)
        return [entry.raw.get(version) or _build(entry, version, blobs) for entry in entries]

    async def one(self, resource: Resource, entry: Entry) -> bytes:
        """JSON of one object."""
        return (await self.many(resource, (entry,)))[0]

    def _encode(self, entry: Entry, version: str, blobs: Mapping[str, bytes]) -> None:
        data = _build(entry, version, blobs)
        self.encoded += 1
        if _needed(entry) and _needed(entry) not in blobs:
            return  # Bytes that are missing now may be there for the next request.
        entry.raw[version] = data
        self._kept[id(entry), version] = (entry, len(data))
        self.kept_bytes += len(data)
        while self.kept_bytes > self._limit and len(self._kept) > 1:
            (_, old), (forgotten, size) = self._kept.popitem(last=False)
            forgotten.raw.pop(old, None)
            self.kept_bytes -= size


def _needed(entry: Entry) -> str:
    return works.needed_blob(entry.source) if isinstance(entry.source, Copy) else ""


def _build(entry: Entry, version: str, blobs: Mapping[str, bytes]) -> bytes:
    if isinstance(entry.source, Bound):
        return encode(bindings.build(entry.source, entry.version, version))
    return encode(works.build(entry.source, entry.version, entry.created, blobs.get(_needed(entry))))


def partial(entry: Entry, form: Form) -> Manifest:
    """An object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": entry.metadata(),
    }


def _column(name: str, kind: str = "string", form: str = "", text: str = "") -> Manifest:
    return {"name": name, "type": kind, "format": form, "description": text, "priority": 0}


def columns(resource: Resource) -> list[Manifest]:
    """Column definitions of a Table."""
    return [
        _column("Name", form="name", text="Name of the object, unique within its namespace."),
        *(_column(name) for name in resource.columns),
        _column("Age" if not resource.columns else "AGE", "date", text="Time since the object was asked for."),
    ]


def row(entry: Entry, resource: Resource, form: Form, include: str, now: float, whole: bytes | None = None) -> Manifest:
    """One row of a Table; `include` selects what comes with the cells (None, Metadata or Object)."""
    cells: list[Any] = [entry.name[1]]
    if resource.columns:
        cells += entry.cells()
    # By the clock of the log's server it was made; where ours is behind that, it was made just now.
    cells.append(age(min(entry.created, now), now))
    found: Manifest = {"cells": cells}
    if include == "Object" and whole is not None:
        found["object"] = Raw(whole)
    elif include != "None":
        found["object"] = partial(entry, form)
    return found


def table(resource: Resource, form: Form, metadata: Manifest, rows: list[Manifest], *, head: bool = True) -> Manifest:
    """A Table; without `head` the columns are those of the one before."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "columnDefinitions": columns(resource) if head else None,
        "rows": rows,
    }


def list_bytes(resource: Resource, metadata: Manifest, items: Iterable[bytes]) -> bytes:
    """JSON of a list."""
    head = b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[' % (
        resource.kind.encode(),
        resource.api_version.encode(),
        encode(metadata),
    )
    return head + b",".join(items) + b"]}"


def partial_list(form: Form, metadata: Manifest, entries: Iterable[Entry]) -> bytes:
    """JSON of a list of metadata."""
    return encode(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": [partial(entry, form) for entry in entries],
        }
    )


def frame(word: str, body: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (word.encode(), body)


def bookmark(resource: Resource, form: Form, version: str, *, initial_end: bool = False) -> bytes:
    """The bookmark line with the resourceVersion that a watch has reached."""
    metadata: Manifest = {"resourceVersion": version, "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    body: Manifest = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if form.partial:
        body = {**body, "kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{form.version}"}
    elif form.table:
        body = table(resource, form, {"resourceVersion": version}, [], head=False)
    else:
        body |= {"spec": {}}
    return frame("BOOKMARK", encode(body))

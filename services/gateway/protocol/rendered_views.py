"""Turns entries into response bytes, in the forms of the API server.

JSON of an object is encoded once per revision and API version and shared by all requests; `Encoder` bounds what is
kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from schemas.manifest import Manifest
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.negotiation import Form
from services.apiserver.reads.responses import TableOf, View
from services.apiserver.store import store_port
from services.gateway.state import Bound, Copy
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from services.gateway.views.catalog import Entry
from services.gateway.views.view_shapes import encode

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

    async def many(self, version: str, entries: Sequence[Entry]) -> list[bytes]:
        """JSON of objects in an API version; fetches what their facts do not carry."""
        missing = [entry for entry in entries if version not in entry.json]
        digests = [digest for entry in missing if (digest := _needed(entry))]
        blobs = await self._blobs.get_many(dict.fromkeys(digests)) if digests else {}
        for entry in missing:
            if version not in entry.json:
                self._encode(entry, version, blobs)
        self.shared += len(entries) - len(missing)
        return [entry.json.get(version) or _build(entry, version, blobs) for entry in entries]

    def _encode(self, entry: Entry, version: str, blobs: Mapping[str, bytes]) -> None:
        data = _build(entry, version, blobs)
        self.encoded += 1
        if _needed(entry) and _needed(entry) not in blobs:
            return  # Bytes that are missing now may be there for the next request.
        entry.json[version] = data
        self._kept[id(entry), version] = (entry, len(data))
        self.kept_bytes += len(data)
        while self.kept_bytes > self._limit and len(self._kept) > 1:
            (_, old), (forgotten, size) = self._kept.popitem(last=False)
            forgotten.json.pop(old, None)
            self.kept_bytes -= size


def _needed(entry: Entry) -> str:
    return works.needed_blob(entry.source) if isinstance(entry.source, Copy) else ""


def _build(entry: Entry, version: str, blobs: Mapping[str, bytes]) -> bytes:
    if isinstance(entry.source, Bound):
        return encode(bindings.build(entry.source, entry.version, version))
    return encode(works.build(entry.source, entry.version, entry.created, blobs.get(_needed(entry))))


class FactView(View):
    """How one request sees projected objects; whole ones are encoded when they are loaded."""

    fetches: ClassVar[bool] = True

    def __init__(self, kind: Kind, form: Form, query: dict[str, str], table: TableOf, encoder: Encoder) -> None:
        super().__init__(kind, form, query, table)
        self._encoder = encoder
        self._whole = self._plain or self.include == "Object"
        self._loaded: dict[store_port.Entry, bytes] = {}

    async def load(self, entries: Sequence[store_port.Entry]) -> None:
        """Encode the next entries to show, where this form needs more of them than a summary."""
        if self._whole:
            shown = [entry for entry in entries if isinstance(entry, Entry)]
            self._loaded = dict(
                zip(shown, await self._encoder.many(self.kind.resource.api_version, shown), strict=True)
            )

    def encoded(self, outcome: store_port.Entry | Manifest) -> bytes:
        """JSON of one object that was loaded."""
        if self._plain and isinstance(outcome, Entry):
            return self._loaded[outcome]
        return super().encoded(outcome)

    def _object(self, entry: store_port.Entry, *, once: bool = False) -> Manifest:
        found: Manifest = msgspec.json.decode(self._loaded[entry]) if self._whole else entry.obj
        return found

    def _items(self, entries: Iterable[store_port.Entry]) -> list[bytes]:
        return [self.encoded(entry) for entry in entries]

    def event(self, event: store_port.Event, kind_of: int, *, columns: bool = False) -> bytes:
        """The frame of an event; the encoder bounds what is kept of it."""
        if self.form.view != "Table":
            return self._frame(self.WORDS[kind_of], event.entry)
        return super().event(event, kind_of, columns=columns)

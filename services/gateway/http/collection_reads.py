"""Answers get and list from a collection."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services.gateway.protocol import rendered_views as views
from services.gateway.protocol.query_selectors import QueryOptions
from services.gateway.protocol.served_resources import Resource
from services.gateway.protocol.status_answers import Form, bad_request, expired, not_found, too_large
from services.gateway.views.catalog import Catalog, Collection, Entry, Name
from services.gateway.views.view_shapes import encode

PATIENCE: Final = 3.0
"""Seconds that a request waits for a revision the log has not reached here."""
CHUNK: Final = 512
"""Entries turned into rows before other requests get their turn."""


class _Token(Struct, array_like=True):
    """Where a list goes on, and at which resourceVersion it began."""

    version: int
    namespace: str
    name: str


class Reader:
    """Reads of all collections; `grown` waits until the catalog changed."""

    def __init__(
        self, catalog: Catalog, encoder: views.Encoder, clock: Clock, grown: Callable[[], Awaitable[None]]
    ) -> None:
        self._collections: dict[str, Collection] = {
            collection.kind: collection for collection in (catalog.bindings, catalog.cluster_bindings, catalog.works)
        }
        self.encoder = encoder
        self.clock = clock
        self.grown = grown

    def collection(self, resource: Resource) -> Collection:
        """The objects of a resource."""
        return self._collections[resource.kind]

    async def get(self, resource: Resource, namespace: str, name: str, form: Form, include: str = "") -> bytes:
        """One object; raises Failure 404."""
        entry = self.collection(resource).entries.get((namespace, name))
        if entry is None:
            raise not_found(resource, name)
        if form.table:
            whole = await self.encoder.one(resource, entry) if include == "Object" else None
            row = views.row(entry, resource, form, include, self.clock.now(), whole)
            return encode(views.table(resource, form, {"resourceVersion": entry.version}, [row]))
        if form.partial:
            return encode(views.partial(entry, form))
        return await self.encoder.one(resource, entry)

    async def listing(self, resource: Resource, form: Form, options: QueryOptions) -> bytes:
        """Objects of a collection; raises Failure 400, 410 and 504."""
        collection = self.collection(resource)
        version, after = await self._position(collection, options)
        entries: list[Entry] = []
        left = 0
        for entry in collection.select(options.namespace, after):
            if not options.everything and not options.wants(entry):
                continue
            if options.limit and len(entries) == options.limit:
                left = 1
                if not options.everything:
                    break
                left = _remaining(collection, options, entries[-1].name)
                break
            entries.append(entry)
        metadata: Manifest = {"resourceVersion": version}
        if left:
            token = _Token(int(version), *entries[-1].name)
            metadata["continue"] = base64.urlsafe_b64encode(encode(token)).decode().rstrip("=")
            if options.everything:
                metadata["remainingItemCount"] = left
        return await self._listed(resource, form, options, metadata, entries)

    async def _listed(
        self, resource: Resource, form: Form, options: QueryOptions, metadata: Manifest, entries: list[Entry]
    ) -> bytes:
        if form.table:
            now = self.clock.now()
            rows: list[Manifest] = []
            for start in range(0, len(entries), CHUNK):
                part = entries[start : start + CHUNK]
                whole = await self.encoder.many(resource, part) if options.include == "Object" else [None] * len(part)
                rows += [
                    views.row(entry, resource, form, options.include, now, data)
                    for entry, data in zip(part, whole, strict=True)
                ]
                await asyncio.sleep(0)
            return encode(views.table(resource, form, metadata, rows))
        if form.partial:
            return views.partial_list(form, metadata, entries)
        items: list[bytes] = []
        for start in range(0, len(entries), CHUNK):
            items += await self.encoder.many(resource, entries[start : start + CHUNK])
            await asyncio.sleep(0)
        return views.list_bytes(resource, metadata, items)

    async def _position(self, collection: Collection, options: QueryOptions) -> tuple[str, Name | None]:
        """resourceVersion of the answer and the name after which it begins."""
        if options.continue_token:
            if options.revision not in ("", "0"):
                raise bad_request("resourceVersion cannot be given together with continue")
            token = _read_token(options.continue_token)
            revision, ours = collection.parse(token.version)
            # Later pages show the present. The first page's version is kept: a watch from it brings what changed.
            if not ours or revision < collection.floor:
                raise expired(str(token.version))
            return str(token.version), (token.namespace, token.name)
        if options.revision not in ("", "0"):
            revision, ours = collection.parse(int(options.revision))
            await self.reach(collection, revision, options.revision)
            if options.match == "Exact" and (not ours or revision != collection.revision):
                raise expired(options.revision)
        return collection.version(), None

    async def reach(self, collection: Collection, revision: int, asked: str) -> None:
        """Return once the collection has come to a revision; raises Failure 504 when it does not in time."""
        try:
            async with asyncio.timeout(PATIENCE):
                while collection.revision < revision:
                    await self.grown()
        except TimeoutError:
            raise too_large(asked, collection.version()) from None


def _remaining(collection: Collection, options: QueryOptions, last: Name) -> int:
    return sum(1 for _ in collection.select(options.namespace, last))


def _read_token(text: str) -> _Token:
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError):
        raise bad_request(
            "continue is not a token that an earlier answer gave: list again from the beginning"
        ) from None

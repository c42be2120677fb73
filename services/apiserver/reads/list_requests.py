"""Lists with snapshots and pages, and watches with selector transitions, bookmarks and expiry."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Iterable

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.core.request import ListOptions, revision_of
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.reads.responses import View, error_frame
from services.apiserver.store.store_port import Compacted, Entry, Event, Key, Reads

BOOKMARK_SECONDS = 60.0
TICK_SECONDS = 5.0
CHUNK = 512
"""Entries that are encoded before other requests get their turn."""


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


class Page(msgspec.Struct):
    """One page of a list: entries and list metadata."""

    entries: list[Entry]
    meta: Manifest


def select(store: Reads, kind: Kind, namespace: str, selection: Selection) -> Iterable[Entry]:
    """Present entries that match."""
    if selection.name and (namespace or not kind.resource.namespaced):
        key = Key(kind.store_group, kind.resource.plural, namespace, selection.name)
        entry = store.get(key)
        entries: Iterable[Entry] = () if entry is None else (entry,)
    else:
        entries = store.list(kind.store_group, kind.resource.plural, namespace)
    if selection.everything:
        return entries
    return [e for e in entries if selection.matches(kind.from_store(e.look()))]


def list_page(store: Reads, kind: Kind, namespace: str, options: ListOptions, selection: Selection) -> Page:
    """Answer a list request; raises 400 for bad tokens, 410 for expired snapshots, 504 for future revisions."""
    token = _read_token(options)
    revision = store.revision
    entries: Iterable[Entry]
    asked = 0 if token is not None else _list_revision(options)
    if asked:
        refuse_future(asked, revision)
    if token is not None or options.match == "Exact" or (options.limit and asked and not options.match):
        revision, start = (asked, "") if token is None else (token.rv, token.start)
        entries = [e for e in _snapshot(store, kind, namespace, revision, token=token is not None) if _path(e) >= start]
        if not selection.everything:
            entries = [e for e in entries if selection.matches(kind.from_store(e.look()))]
    else:
        entries = select(store, kind, namespace, selection)
    meta: Manifest = {"resourceVersion": str(revision)}
    found = list(entries)
    limit = options.limit
    if 0 < limit < len(found) and not (options.revision == "0" and token is None):
        page = found[:limit]
        after = _path(page[-1]) + "\0"
        raw = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, after))
        meta["continue"] = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        if selection.everything:
            meta["remainingItemCount"] = len(found) - limit
        return Page(page, meta)
    return Page(found, meta)


def _list_revision(options: ListOptions) -> int:
    text = options.revision
    if text and not (text.isascii() and text.isdigit()):
        raise status.bad_request(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return revision_of(text)


def _snapshot(store: Reads, kind: Kind, namespace: str, revision: int, *, token: bool = False) -> list[Entry]:
    try:
        return list(store.list_at(kind.store_group, kind.resource.plural, namespace, revision))
    except Compacted as e:
        if token:
            text = "The provided continue parameter is too old to display a consistent list result. You can start a "
            text += "new list without the continue parameter."
            raise ApiError(410, "Expired", text) from e
        raise status.expired(e.requested, e.floor) from e


def refuse_future(asked: int, current: int) -> None:
    """Raise 504 for a revision that is not reached yet."""
    if asked > current:
        text = f"Too large resource version: {asked}, current: {current}"
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        raise ApiError(504, "Timeout", f"Timeout: {text}", {"causes": causes, "retryAfterSeconds": 1})


def _path(entry: Entry) -> str:
    key = entry.key
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _read_token(options: ListOptions) -> _Token | None:
    if not options.continue_:
        return None
    if options.revision not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")
    text = options.continue_
    where = "invalid continue token: continue key is not valid: "
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as e:
        bad = next((i for i, c in enumerate(text) if not (c.isalnum() or c in "-_")), len(text))
        raise status.bad_request(f"{where}illegal base64 data at input byte {bad}") from e
    try:
        token = msgspec.json.decode(raw, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        first = chr(raw[0]) if raw else ""
        shown = first if first.isprintable() and first.isascii() else f"\\u{ord(first):04x}" if first else ""
        raise status.bad_request(f"{where}invalid character '{shown}' looking for beginning of value") from e
    if token.v != "meta.k8s.io/v1" or token.rv <= 0 or not token.start:
        raise status.bad_request(f"{where}incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    return token


class WatchRequest:
    """A watch about to run: everything that can be refused with a plain answer is checked in the constructor."""

    def __init__(self, store: Reads, view: View, namespace: str, options: ListOptions, selection: Selection) -> None:
        self._store, self._view, self._namespace = store, view, namespace
        self._options, self._selection = options, selection
        self._kind = view.kind
        self._asked = revision_of(options.revision)
        self._initial: list[Entry] | None = None
        self._too_old: Compacted | None = None
        start = self._asked
        initial = start == 0
        if options.send_initial:
            initial = True
        elif options.match == "NotOlderThan" and start:
            initial = False
        if initial:
            self._initial = list(select(store, self._kind, namespace, selection))
            start = store.revision
        try:
            self._cursor = store.watch(self._kind.store_group, self._kind.resource.plural, start)
        except Compacted as e:
            self._too_old = e

    async def frames(self, seconds: float) -> AsyncIterator[bytes]:
        """Chunks of frames until the time is over or the history was lost; an empty one now and then when quiet."""
        view, options = self._view, self._options
        if self._too_old is not None:
            yield error_frame(status.expired(self._too_old.requested, self._too_old.floor).status)
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        first = True
        cursor = self._cursor
        if self._initial is not None:
            for start in range(0, len(self._initial), CHUNK):
                entries = self._initial[start : start + CHUNK]
                if view.fetches:
                    await view.load(entries)
                yield b"".join([view.initial(e, columns=first and i == 0) for i, e in enumerate(entries)])
                first = False
            if options.send_initial and options.bookmarks:
                yield view.bookmark(cursor.revision, {"k8s.io/initial-events-end": "true"})
            self._initial = None
        sent = cursor.revision
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        while True:
            wait = min(end - loop.time(), TICK_SECONDS)
            if wait <= 0:
                break
            try:
                events = await cursor.next(wait)
            except Compacted as e:
                yield error_frame(status.expired(e.requested, e.floor).status)
                return
            chunk = []
            if view.fetches:
                both = [(event.entry, None if self._selection.everything else event.prev) for event in events]
                await view.load([entry for pair in both for entry in pair if entry is not None])
            for event in events:
                frame = self._frame(event, columns=first)
                if frame is not None:
                    first = False
                    chunk.append(frame)
                    sent = event.revision
            if chunk:
                yield b"".join(chunk)
            if options.bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + BOOKMARK_SECONDS
                if cursor.revision > sent:
                    sent = cursor.revision
                    yield view.bookmark(sent)
            if not events:
                yield b""
        if options.bookmarks and cursor.revision > sent:
            yield view.bookmark(cursor.revision)

    def _frame(self, event: Event, *, columns: bool) -> bytes | None:
        """An event as this watcher sees it: entering and leaving the selection are ADDED and DELETED."""
        key = event.entry.key
        if self._namespace and key.namespace != self._namespace:
            return None
        selection, view, kind, prev = self._selection, self._view, self._kind, event.prev
        if selection.everything:
            return view.event(event, 2 if event.deleted else 1 if prev is not None else 0, columns=columns)
        if selection.name and key.name != selection.name:
            return None
        was = prev is not None and selection.matches(kind.from_store(prev.obj))
        if event.deleted:
            return view.event(event, 2, columns=columns) if was else None
        if selection.matches(kind.from_store(event.entry.obj)):
            return view.event(event, 1 if was else 0, columns=columns)
        return view.left(prev, event.revision, columns=columns) if was and prev is not None else None

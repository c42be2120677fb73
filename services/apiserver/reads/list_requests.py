"""Which objects a list request gets: of now or of an earlier revision, all or one page, by its selectors."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import NamedTuple

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.core.request import ListOptions, revision_of, revision_problem
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.continue_tokens import INCONSISTENT, LATEST, Token, read_token, write_token
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.store.object_index import place_of
from services.apiserver.store.store_port import Compacted, Entry, Key, Reads

TURN = 200
"""Entries that are tested or encoded before other requests get their turn."""
MANY = 2000
"""Objects of a collection that takes a turn of its own to look through."""
SLICE_BYTES = 128 << 10
"""Bytes of entries that are encoded in one go."""


class Page:
    """One page of a list: its entries and the metadata of the list."""

    __slots__ = ("entries", "meta")

    def __init__(self, entries: list[Entry], meta: Manifest) -> None:
        self.entries, self.meta = entries, meta


def slices(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Neighbours that are encoded in one go: as many as make a slice of bytes."""
    start = size = 0
    for place, entry in enumerate(entries):
        size += len(entry.raw)
        if size >= SLICE_BYTES or place - start == TURN:
            yield entries[start : place + 1]
            start, size = place + 1, 0
    if start < len(entries):
        yield entries[start:]


def present(store: Reads, kind: Kind, namespace: str, selection: Selection, start: str = "") -> Iterable[Entry]:
    """Present entries that can match; where a selector names one object, no others."""
    if selection.name and not start and (namespace or not kind.resource.namespaced):
        entry = store.get(Key(kind.store_group, kind.resource.plural, namespace, selection.name))
        return () if entry is None else (entry,)
    return store.list(kind.store_group, kind.resource.plural, namespace, start)


async def matching(entries: list[Entry], selection: Selection, most: int = 0) -> tuple[list[Entry], int]:
    """Entries that match, and how many were tested for them; others are served in between."""
    if selection.everything:
        page = entries[:most] if most else entries
        return page, len(page)
    found: list[Entry] = []
    for number, entry in enumerate(entries):
        if most and len(found) == most:
            return found, number
        if number % TURN == TURN - 1:
            await asyncio.sleep(0)
        if selection.takes(entry):
            found.append(entry)
    return found, len(entries)


@asynccontextmanager
async def turn(turns: asyncio.Lock, store: Reads, kind: Kind, namespace: str) -> AsyncIterator[None]:
    """Wait for a turn to look through a collection; one of many objects takes the whole turn, others are quick."""
    if store.count(kind.store_group, kind.resource.plural, namespace) < MANY:
        yield
        return
    async with turns:
        yield
        await asyncio.sleep(0)


async def list_page(
    store: Reads, kind: Kind, namespace: str, options: ListOptions, selection: Selection, turns: asyncio.Lock
) -> Page:
    """Answer a list request; raises 400 for what cannot be read, 410 for what is gone, 504 for future revisions."""
    if options.limit > 0 and selection.everything:
        found = _captured(store, kind, namespace, options, selection)
    else:
        async with turn(turns, store, kind, namespace):
            found = _captured(store, kind, namespace, options, selection)
    page, tested = await matching(found.entries, selection, found.limit)
    meta: Manifest = {"resourceVersion": str(found.revision)}
    if found.limit and tested < len(found.entries):
        after = place_of(found.entries[tested - 1].key, namespace) + "\0"
        meta["continue"] = write_token(Token(found.revision, after))
        if selection.everything:
            meta["remainingItemCount"] = found.total - found.limit
    return Page(page, meta)


class _Captured(NamedTuple):
    """What one revision has for a list, before it is selected from; `total` is known where everything is listed."""

    entries: list[Entry]
    revision: int
    limit: int = 0
    total: int = 0


def _captured(store: Reads, kind: Kind, namespace: str, options: ListOptions, selection: Selection) -> _Captured:
    plural = (kind.store_group, kind.resource.plural, namespace)
    if _takes_any(options):
        refuse_future(revision_of(options.revision), store.revision, retry=1)
        return _Captured(list(present(store, kind, namespace, selection)), store.revision)
    token, at = _place(store, options)
    start, limit = "" if token is None else token.start, max(options.limit, 0)
    single = bool(selection.name) and token is None and bool(namespace or not kind.resource.namespaced)
    if single:
        start, limit = selection.name if at else "", 0
    paged = limit and selection.everything
    try:
        found = store.list_at(*plural, at, start) if at else present(store, kind, namespace, selection, start)
        if single and at:
            found = islice(found, 1)
        # One more than the page tells whether another follows.
        entries = list(islice(found, min(limit, sys.maxsize - 1) + 1) if paged else found)
        total = store.count(*plural, at, start) if paged else 0
    except Compacted as gone:
        raise _too_old(token) from gone
    return _Captured(entries, at or store.revision, limit, total)


def _takes_any(options: ListOptions) -> bool:
    """Whether any state that is new enough will do: then the limit does not count."""
    if not options.revision or options.continue_ or options.match == "Exact":
        return False
    return options.revision == "0" or options.limit <= 0


def _place(store: Reads, options: ListOptions) -> tuple[Token | None, int]:
    """The token of a list that goes on, and the revision that has to be listed exactly, 0 for the present."""
    if problem := revision_problem(options.revision):
        raise status.bad_request(f"invalid resource version: {problem}")
    asked = revision_of(options.revision)
    if options.continue_:
        token = read_token(options.continue_)
        if asked or options.revision not in ("", "0"):
            raise status.bad_request("specifying resource version is not allowed when using continue")
        exact = 0 if token.revision == LATEST else token.revision
    else:
        token, exact = None, asked if options.match != "NotOlderThan" else 0
    refuse_future(exact or asked, store.revision)
    return token, exact


def _too_old(token: Token | None) -> ApiError:
    """410: history does not reach back to the revision; a token gets another that goes on with the present."""
    if token is None:
        return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")
    error = ApiError(410, "Expired", INCONSISTENT)
    error.continue_ = write_token(Token(LATEST, token.start))
    return error


def refuse_future(asked: int, current: int, *, retry: int = 0) -> None:
    """Raise 504 for a revision that is not reached yet; `retry` are the seconds after which to ask again."""
    if asked > current:
        text = f"Too large resource version: {asked}, current: {current}"
        details: Manifest = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        if retry:
            details["retryAfterSeconds"] = retry
        headers = {"Retry-After": str(retry)} if retry else None
        raise ApiError(504, "Timeout", f"Timeout: {text}", details, headers)

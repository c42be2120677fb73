"""Answers queries page by page: what the index can tell first, then the objects themselves, within bounds."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from services.search.http.cache_answers import BadSearch, Turn
from services.search.index.member_index import Found, MemberIndex, Shelf
from services.search.index.questions import Question
from services.search.querying.query_matches import means_kind, question_of, rest_of
from services.search.querying.query_syntax import Query, QueryError, parse_query

DEFAULT_LIMIT: Final = 500
MOST: Final = 1000
"""Objects of one page."""
MOST_BYTES: Final = 16 << 20
"""Bytes of one page."""
LOOKED_AT: Final = 20_000
"""Objects that are unpacked for one page: one with fewer objects than asked for may be followed by others."""
HELD_SECONDS: Final = 0.06
"""Seconds that one page may hold others up in all, looking for objects."""


class _Place(Struct, frozen=True, array_like=True):
    """After which object a page begins."""

    kind: str
    cluster: str
    key: str


_START: Final = _Place("", "", "")
_place: Final = msgspec.json.Decoder(_Place)


class QueryAnswers:
    """Reads the index."""

    def __init__(self, index: MemberIndex) -> None:
        self._index = index

    async def answer(self, parameters: dict[str, str]) -> web.Response:
        """One page of a query; raises BadSearch."""
        try:
            query = parse_query(parameters.get("query", ""))
        except QueryError as error:
            raise BadSearch(str(error)) from None
        limit = _limit(parameters.get("limit", ""))
        after = _after(parameters.get("continue", ""))
        items, place = await self._page(query, limit, after)
        token = base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=") if place is not None else ""
        head = b'{"apiVersion":"v1","kind":"List","metadata":%s,"items":[' % msgspec.json.encode(
            {"continue": token} if token else {}
        )
        return web.Response(body=head + b",".join(items) + b"]}\n", content_type="application/json")

    async def _page(self, query: Query, limit: int, after: _Place) -> tuple[list[bytes], _Place | None]:
        question, rest = question_of(query), rest_of(query)
        items: list[bytes] = []
        size = looked = members = 0
        turn = Turn()
        for shelf, found in self._each(query, question, after):
            await turn.over()
            if not isinstance(found, Found):
                if members and turn.held >= HELD_SECONDS:
                    return items, _Place(str(shelf.gvr), found, "")
                members += 1
                continue
            data = shelf.data(found.stored)
            looked += 1
            if rest is None or rest(data):
                items.append(data)
                size += len(data)
            if len(items) >= limit or size >= MOST_BYTES or looked >= LOOKED_AT or turn.held >= HELD_SECONDS:
                return items, _Place(str(shelf.gvr), found.cluster, found.key)
        return items, None

    def _each(self, query: Query, question: Question, after: _Place) -> Iterator[tuple[Shelf, Found | str]]:
        for shelf in self._index.shelves():
            name = str(shelf.gvr)
            if name < after.kind or not means_kind(query, shelf.gvr, shelf.kind):
                continue
            start = (after.cluster, after.key) if name == after.kind else ("", "")
            for found in shelf.each(question, start):
                yield shelf, found


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not text.isdecimal() or not 0 < int(text[:9]) <= MOST:
        raise BadSearch(f"limit is {text[:20]!r}; use 1 to {MOST}")
    return int(text)


def _after(token: str) -> _Place:
    if not token:
        return _START
    try:
        return _place.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise BadSearch("continue is no token of an earlier page; leave it out to begin again") from None

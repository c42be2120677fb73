"""Answers reads of the cache: lists of objects of all members, written as they are unpacked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest
from msgspec import Struct

from services._rules.kubernetes.selectors import LabelSelectorError, parse_selector
from services.apiserver.core.request import RequestInfo, resource_path
from services.search.index.member_index import Found, MemberIndex, Shelf
from services.search.index.member_part import key_of
from services.search.index.object_shapes import Shape
from services.search.index.questions import Question
from services.search.registries.member_facts import Gvr

LONGEST_SELECTOR: Final = 8 << 10
"""Characters of a label selector."""
_CHUNK: Final = 64 << 10
_TURN_SECONDS: Final = 0.004

_encode = msgspec.json.Encoder().encode


class BadSearch(Exception):
    """A request that cannot be answered; the text is for the caller."""


class CacheRequest(Struct, frozen=True):
    """One read of the cache."""

    gvr: Gvr
    namespace: str = ""
    name: str = ""
    selector: str = ""


def cache_request(parts: list[str], query: dict[str, str]) -> CacheRequest:
    """What is asked for by the path below `search/cache` and the query; raises BadSearch."""
    info = resource_path(parts)
    if info is None or not info.resource or info.watch_prefix or info.subresource:
        raise BadSearch(
            f"{'/'.join(parts)[:200]!r} names no objects: use api/v1/RESOURCE or apis/GROUP/VERSION/RESOURCE, with "
            "namespaces/NAMESPACE before it and a name after it as needed"
        )
    selector = query.get("labelSelector", "")
    if len(selector) > LONGEST_SELECTOR:
        raise BadSearch(f"labelSelector has {len(selector)} characters, more than {LONGEST_SELECTOR}")
    return CacheRequest(_gvr(info), info.namespace, info.name, selector)


def _gvr(info: RequestInfo) -> Gvr:
    return Gvr(info.group, info.version, info.resource)


def question_of(asked: CacheRequest) -> Question:
    """The objects that are meant; raises BadSearch for a selector that cannot be understood."""
    try:
        labels = parse_selector(asked.selector)
    except LabelSelectorError as error:
        raise BadSearch(f"labelSelector: {error}") from None

    def fits(shape: Shape) -> bool:
        return labels.matches(shape.labels)

    prefix = key_of(asked.namespace, "")
    return Question(
        name=("labels", asked.selector),
        shape=fits if asked.selector else None,
        key=(lambda key: key.startswith(prefix)) if asked.namespace else None,
        fragments=(prefix,) if asked.namespace else (),
    )


def items_of(shelf: Shelf, asked: CacheRequest) -> Iterator[bytes | None]:
    """The JSON of each object, by member and key; None now and then, when others may have a turn."""
    question = question_of(asked)
    if not asked.name:
        for found in shelf.each(question):
            yield shelf.data(found.stored) if isinstance(found, Found) else None
        return
    for named in shelf.find(asked.namespace, asked.name):
        if question.shape is None or question.shape(named.stored.shape):
            yield shelf.data(named.stored)


class CacheAnswers:
    """Reads the index."""

    def __init__(self, index: MemberIndex) -> None:
        self._index = index

    async def answer(self, request: BaseRequest, parts: list[str], query: dict[str, str]) -> web.StreamResponse:
        """Stream a list; raises BadSearch before it begins."""
        asked = cache_request(parts, query)
        shelf = self._index.known(asked.gvr)
        kind = f"{shelf.kind}List" if shelf is not None else "List"
        question_of(asked)
        head = b'{"apiVersion":%s,"kind":%s,"metadata":{},"items":[' % (
            _encode(asked.gvr.api_version),
            _encode(kind),
        )
        return await stream(request, head, items_of(shelf, asked) if shelf is not None else iter(()), b"]}\n")


class Turn:
    """Gives others the event loop when one has had it for a few milliseconds."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.held = 0.0
        """Seconds of the turns that are over."""

    async def over(self) -> None:
        """Let others work, if it is time."""
        if (took := time.perf_counter() - self._began) > _TURN_SECONDS:
            self.held += took
            await asyncio.sleep(0)
            self._began = time.perf_counter()


async def stream(request: BaseRequest, head: bytes, items: Iterator[bytes | None], tail: bytes) -> web.StreamResponse:
    """Write items between head and tail, a few at a time: no answer is held as a whole."""
    response: web.StreamResponse | None = None
    waiting, first = bytearray(head), True
    turn = Turn()
    for item in items:
        await turn.over()
        if item is None:
            continue
        if not first:
            waiting += b","
        first = False
        waiting += item
        if len(waiting) >= _CHUNK:
            if response is None:
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                await response.prepare(request)
            await response.write(bytes(waiting))
            waiting.clear()
    waiting += tail
    if response is None:
        return web.Response(body=bytes(waiting), content_type="application/json")
    await response.write(bytes(waiting))
    await response.write_eof()
    return response

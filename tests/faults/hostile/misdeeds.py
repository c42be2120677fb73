"""What a hostile or broken API server answers: endless, ill-formed, elsewhere, late, or not at all.

Each misdeed gets the request, its kind (watch, list, get, write) and a question whether it still holds; it answers, or
returns None to let the request pass.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

HTML: Final = "<!DOCTYPE html><html><head><title>Down for maintenance</title></head><body>503 back soon</body></html>\n"
LABELS: Final = {"karmada.io/managed": "true"}
_PIECE: Final = 1 << 16
_RATE: Final = 24 << 20
"""Bytes per second of an endless answer: more would only measure this machine's loopback."""
_PAGE: Final = 500
_INVENTED: Final = 20_000

Holds = Callable[[], bool]
Misdeed = Callable[[web.BaseRequest, str, Holds], Awaitable[web.StreamResponse | None]]


def refusal(status: int, reason: str) -> web.Response:
    """A Kubernetes error."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    return web.json_response(body, status=status)


async def _stream(request: web.BaseRequest, **headers: str) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
    await answer.prepare(request)
    return answer


async def _while(holds: Holds) -> None:
    """Return once a misdeed is over."""
    while True:
        if not holds():
            return
        await asyncio.sleep(0.2)


async def _pour(answer: web.StreamResponse, piece: bytes, holds: Holds) -> None:
    while holds():
        await answer.write(piece)
        await asyncio.sleep(len(piece) / _RATE)


async def endless_line(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """A watch whose first line never ends."""
    if kind != "watch":
        return None
    answer = await _stream(request)
    await answer.write(b'{"type":"ADDED","object":{"metadata":{"name":"')
    await _pour(answer, b"a" * _PIECE, holds)
    return answer


async def endless_body(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """A list that never ends."""
    if kind == "watch":
        return None
    answer = await _stream(request)
    await answer.write(b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[')
    await _pour(answer, b'{"metadata":{"name":"x","namespace":"default"}},' * 1024, holds)
    return answer


_bomb: list[bytes] = []


def bomb() -> bytes:
    """A gigabyte of blanks within a list, packed into one megabyte."""
    if not _bomb:
        packer = gzip.compress
        head = packer(b'{"kind":"List","items":[')
        # Members of one gzip stream may follow each other.
        _bomb.append(head + packer(b" " * (16 << 20)) * 64 + packer(b'],"metadata":{"resourceVersion":"1"}}'))
    return _bomb[0]


async def gzip_bomb(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """A small answer that unpacks to a gigabyte."""
    return web.Response(body=bomb(), headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})


async def pages(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """A list whose every page names a next one."""
    if kind != "list":
        return None
    start = _numbers(request.query.get("continue", ""))
    items = [_invented(request.path, start + number) for number in range(_PAGE)]
    # As fast as a server could read them; faster would only measure this machine.
    await asyncio.sleep(0.05)
    return web.json_response(
        {"kind": "List", "metadata": {"resourceVersion": "7", "continue": str(start + _PAGE)}, "items": items}
    )


def _numbers(text: str) -> int:
    return int(text) if text.isdecimal() else 0


async def html(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """A page for people, with success."""
    return web.Response(text=HTML, content_type="text/html")


_WRONG_LISTS: Final[tuple[Any, ...]] = (
    {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [1, 2]},
    {"kind": "List", "metadata": {"resourceVersion": 5}, "items": [{"metadata": None}]},
    {"kind": "List", "metadata": "none", "items": {}},
    {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": 7, "labels": []}}]},
    {
        "kind": "List",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "n", "labels": LABELS}, "spec": 3, "status": "x"}],
    },
    {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [{}]},
    [],
    None,
    "text",
    17,
)
_WRONG_LINES: Final[tuple[Any, ...]] = (
    {"type": 5, "object": [1]},
    {"type": "MODIFIED", "object": {"metadata": None}},
    {"type": "ADDED", "object": {"metadata": {"name": 7, "namespace": [], "resourceVersion": {}}}},
    {"type": "MODIFIED", "object": {"metadata": {"name": "n", "labels": LABELS}, "spec": 1, "status": []}},
    {"type": "UNHEARD", "object": {}},
    {"type": "ERROR", "object": "x"},
    {"type": "BOOKMARK", "object": None},
    [],
    None,
    3,
)
_turn = itertools.count()


async def wrong_types(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """JSON that is none of a Kubernetes API: each answer another kind of wrong."""
    number = next(_turn)
    if kind == "watch":
        answer = await _stream(request)
        await answer.write(json.dumps(_WRONG_LINES[number % len(_WRONG_LINES)]).encode() + b"\n")
        await _while(holds)
        return answer
    return web.json_response(_WRONG_LISTS[number % len(_WRONG_LISTS)])


async def redirect(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """It is elsewhere: at an address inside."""
    return web.Response(status=302, headers={"Location": f"https://{request.host}/internal/metadata"})


async def silent(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """The request is taken and never answered."""
    await _while(holds)
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


async def slow_bytes(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """One byte in a second."""
    answer = await _stream(request)
    text = itertools.chain(b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[', itertools.repeat(32))
    for byte in text:
        if not holds():
            break
        await answer.write(bytes([byte]))
        await asyncio.sleep(1.0)
    return answer


async def unauthorized(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """Nobody is known any more."""
    return refusal(401, "Unauthorized")


async def invented(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """Watches tell of thousands of objects with our label that nobody made, and never stop."""
    if kind != "watch":
        return None
    answer = await _stream(request)
    for number in range(_INVENTED):
        if not holds():
            break
        item = _invented(request.path, number)
        await answer.write(json.dumps({"type": "ADDED", "object": item}).encode() + b"\n")
        if number % 100 == 0:
            await asyncio.sleep(0.02)
    await _while(holds)
    return answer


def _invented(path: str, number: int) -> dict[str, Any]:
    parts = path.strip("/").split("/")
    version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    metadata = {
        "name": f"invented-{number:07d}",
        "namespace": "default",
        "uid": f"0000-{number}",
        "resourceVersion": str(1_000_000 + number),
        "labels": LABELS,
        "annotations": {"filling": "x" * 256},
    }
    return {"apiVersion": version, "kind": "Invented", "metadata": metadata, "spec": {}, "status": {}}


async def gone(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """Every watch is told that its version is too old."""
    return refusal(410, "Expired") if kind == "watch" else None


async def headers(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """200 KB of headers."""
    many = {f"X-Filling-{number}": "x" * 2000 for number in range(100)}
    return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}, headers=many)


async def truncated(request: web.BaseRequest, kind: str, holds: Holds) -> web.StreamResponse | None:
    """Answers that break off in the middle."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100000"})
    await answer.prepare(request)
    await answer.write(b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[{"metadata":')
    if request.transport is not None:
        request.transport.abort()
    return answer


BY_NAME: Final[Mapping[str, Misdeed]] = {
    "endless-line": endless_line,
    "endless-body": endless_body,
    "gzip-bomb": gzip_bomb,
    "pages": pages,
    "html": html,
    "wrong-types": wrong_types,
    "redirect": redirect,
    "silent": silent,
    "slow-bytes": slow_bytes,
    "unauthorized": unauthorized,
    "invented": invented,
    "gone": gone,
    "headers": headers,
    "truncated": truncated,
}

"""HTTP by hand: requests as they come, and answers that no HTTP library would send."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

WATCHES: Final = "watch"
LISTS: Final = "list"
HEALTH: Final = "health"
DISCOVERY: Final = "discovery"
READS: Final = "read"
WRITES: Final = "write"
_HEALTH_PATHS: Final = ("/readyz", "/healthz", "/livez", "/version")
JSON: Final = "Content-Type: application/json"
_LABELS: Final = {"karmada.io/managed": "true"}


class Asked(Struct, frozen=True):
    """One request as it came; `kind` is one of the words above."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    kind: str


def place(manifest: Manifest) -> tuple[str, str]:
    """Namespace and name of an object."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def invented(number: int, path: str) -> Manifest:
    """An object that bears our label and fills 2 KB."""
    metadata = {"name": f"invented-{number}", "namespace": "default", "uid": str(number), "labels": _LABELS}
    metadata["resourceVersion"] = str(number + 1)
    name = path.rpartition("/")[2]
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}
    return {"metadata": metadata, "spec": spec, "data": {"a": name * 200}}


def head(status: str, *headers: str) -> bytes:
    """The first lines of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def whole(body: bytes, status: str = "200 OK", kind: str = JSON) -> bytes:
    """A complete answer."""
    return head(status, kind, f"Content-Length: {len(body)}", "Connection: close") + body


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def answer(writer: asyncio.StreamWriter, body: Manifest, status: str = "200 OK") -> None:
    """Send a complete answer in JSON."""
    writer.write(whole(msgspec.json.encode(body), status))
    await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> tuple[Asked, bytes, bytes] | None:
    """One request: what it asks, its head for another server, its body."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if headers.get("expect", "").lower() == "100-continue":
        headers.pop("expect")
    body = await _body(reader, headers)
    sent = {**headers, "connection": "close", "content-length": str(len(body))}
    sent.pop("transfer-encoding", None)
    head = "".join([f"{first}\r\n", *(f"{name}: {value}\r\n" for name, value in sent.items()), "\r\n"])
    return asked_of(method, target, headers), head.encode("latin-1"), body


def asked_of(method: str, target: str, headers: dict[str, str]) -> Asked:
    """The request of a first line and headers."""
    url = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    return Asked(method, url.path, query, headers, _kind(method, url.path, query))


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length") or 0))
    found = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        found += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return found


def _kind(method: str, path: str, query: dict[str, str]) -> str:
    if method != "GET":
        return WRITES
    if query.get("watch") in ("true", "1"):
        return WATCHES
    if path in _HEALTH_PATHS:
        return HEALTH
    parts = path.strip("/").split("/")
    depth = len(parts) - (2 if parts[0] == "api" else 3)
    if parts[0] not in ("api", "apis") or depth <= 0:
        return DISCOVERY
    if "namespaces" in parts and parts.index("namespaces") < len(parts) - 2:
        depth -= 2
    return LISTS if depth == 1 else READS


_NESTED: Final = b"[" * 100_000 + b"]" * 100_000
FIXED: Final = {
    "html_200": whole(b"<html><body>The service is under maintenance</body></html>\n", kind="Content-Type: text/html"),
    "empty_200": whole(b""),
    "wrong_types": whole(b'{"type":7,"object":[],"metadata":[1],"items":{"a":1},"groups":3,"resources":"x"}\n'),
    "wrong_items": whole(
        b'{"type":"ADDED","object":{"metadata":{"name":7}},"metadata":{"resourceVersion":"1"},"items":[1,2],'
        b'"groups":[1],"resources":[1],"gitVersion":{}}\n'
    ),
    "bad_utf8": whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff\xfe"}},"items":[{"a":"\xff"}],"a":"\xff"}\n'
    ),
    "huge_number": whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"a","generation":%s}},"items":[%s],"groups":[%s],'
        b'"resources":[%s],"metadata":%s}\n' % ((b"9" * 100_000,) * 5)
    ),
    "huge_headers": head("200 OK", JSON, *(f"X-{number}: {'a' * 2000}" for number in range(100))) + b"{}",
    "bad_headers": b"HTTP/1.1 200 OK\r\n: nothing\r\nno colon here\r\n\r\n{}",
    "bad_chunks": head("200 OK", JSON, "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n-1\r\n",
    "deep_nesting": whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":%s},"items":[%s],"groups":%s,"resources":%s,'
        b'"metadata":%s,"a":%s}\n' % ((_NESTED,) * 6)
    ),
    "truncated": head("200 OK", JSON, "Content-Length: 9000") + b'{"type":"ADDED","object":{"metadata":{"na',
    "refuse_401": whole(b'{"kind":"Status","reason":"Unauthorized","code":401}', "401 Unauthorized"),
    "refuse_410": whole(b'{"kind":"Status","reason":"Expired","code":410}', "410 Gone"),
    "html_404": whole(b"<html><body>404 Not Found</body></html>", "404 Not Found", kind="Content-Type: text/html"),
    "success_untrue": whole(b'{"kind":"Status","apiVersion":"v1","status":"Success","metadata":{}}'),
    "other_object": whole(
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"y","uid":"z","resourceVersion":"1"}}'
    ),
    "empty_list": whole(
        b'{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[],"resources":[],"groups":[]}'
    ),
    "refuse_500": whole(b"[]", "500 Internal Server Error"),
}
"""Answers that are always the same, by mode."""

"""A Kubernetes endpoint that turns hostile on request: a proxy of a real one, or a small one with objects of its own.

It speaks HTTP/1.1 by hand, one request for each connection, so that it can send what no HTTP library would.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

MODES: Final = (
    "endless_line",
    "endless_body",
    "endless_headers",
    "gzip_bomb",
    "endless_pages",
    "repeated_continue",
    "html_200",
    "empty_200",
    "wrong_types",
    "wrong_items",
    "bad_utf8",
    "huge_number",
    "tiny_items",
    "redirect",
    "silent_watch",
    "slow_bytes",
    "huge_headers",
    "bad_headers",
    "bad_chunks",
    "deep_nesting",
    "truncated",
    "invented_objects",
    "huge_objects",
    "html_404",
    "success_untrue",
    "other_object",
    "empty_list",
    "refuse_401",
    "refuse_500",
    "hang",
    "reset",
)
"""What it can be made to do."""
WATCHES: Final = "watch"
LISTS: Final = "list"
HEALTH: Final = "health"
DISCOVERY: Final = "discovery"
READS: Final = "read"
WRITES: Final = "write"
_HEALTH_PATHS: Final = ("/readyz", "/healthz", "/livez", "/version")
_JSON: Final = "Content-Type: application/json"
_LABELS: Final = {"karmada.io/managed": "true"}


class Asked(Struct, frozen=True):
    """One request as it came; `kind` is one of the words above."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    kind: str


class HostileServer:
    """`mode` and `targets` say what it does from the next request on; the empty mode is honest.

    `objects` are what its lists hold while it is no proxy, by path of the collection.
    """

    def __init__(self, upstream: str, context: ssl.SSLContext | None) -> None:
        self.mode = ""
        self.targets: frozenset[str] = frozenset()
        self.paths: tuple[str, ...] = ()
        self.requests: list[Asked] = []
        self.objects: dict[str, list[Manifest]] = {}
        self.resources: dict[str, list[Manifest]] = {}
        self.redirect_to = "http://127.0.0.1:9/internal/metadata"
        self.sent = 0
        """Bytes sent by hostile answers."""
        self.revision = 100
        self.port = 0
        self._upstream = urlsplit(upstream) if upstream else None
        self._context = context
        self._watches: dict[asyncio.StreamWriter, Asked] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._turned = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def turn(self, mode: str, *targets: str, paths: tuple[str, ...] = ()) -> None:
        """Behave in a mode towards requests of these kinds (none: all) whose path ends with one of `paths`."""
        assert not mode or mode in MODES, mode
        self.mode, self.targets, self.paths = mode, frozenset(targets), paths
        self._turning = asyncio.get_running_loop().create_task(self._tell_turn())

    async def _tell_turn(self) -> None:
        async with self._turned:
            self._turned.notify_all()

    def heal(self) -> None:
        """Be honest from now on; connections that hang are cut, open watches go on."""
        self.turn("")
        for task in [task for task in self._connections if not task.done() and task.get_name() == "hostile"]:
            task.cancel()

    def inject(self, data: bytes) -> int:
        """Write bytes into the open watches; how many there were."""
        for writer in self._watches:
            writer.write(_chunk(data))
        return len(self._watches)

    def change(self, kind: str, path: str, manifest: Manifest) -> None:
        """Change an object of a collection, and tell it to its watches: `kind` is ADDED, MODIFIED or DELETED."""
        self.revision += 1
        manifest["metadata"]["resourceVersion"] = str(self.revision)
        place = _place(manifest)
        left = [found for found in self.objects.get(path, []) if _place(found) != place]
        self.objects[path] = left if kind == "DELETED" else [*left, manifest]
        line = msgspec.json.encode({"type": kind, "object": manifest}) + b"\n"
        for writer, asked in self._watches.items():
            if asked.path == path and not self._is_hostile(asked):
                writer.write(_chunk(line))

    def cut(self) -> None:
        """End every open watch."""
        for writer in list(self._watches):
            writer.close()

    def asked(self, kind: str, path: str = "") -> list[Asked]:
        """The requests of a kind so far."""
        return [found for found in self.requests if found.kind == kind and found.path.endswith(path)]

    def _is_hostile(self, asked: Asked) -> bool:
        if not self.mode or (self.targets and asked.kind not in self.targets):
            return False
        if self.paths and not asked.path.endswith(self.paths):
            return False
        return self.mode != "silent_watch" or asked.kind == WATCHES

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            found = await _request(reader)
            if found is None:
                return
            asked, head, body = found
            self.requests.append(asked)
            if self._is_hostile(asked):
                task.set_name("hostile")
                await self._hostile(asked, reader, writer)
            elif self._upstream is not None:
                await self._forward(asked, head, body, writer)
            else:
                await self._honest(asked, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            return
        except asyncio.CancelledError:
            # Streams complain of a connection's task that was cancelled; nothing awaits it.
            return
        finally:
            self._connections.discard(task)
            self._watches.pop(writer, None)
            with suppress(ConnectionError, RuntimeError):
                writer.transport.abort() if self.mode == "reset" else writer.close()

    async def close(self) -> None:
        """End every connection."""
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- honest

    async def _forward(self, asked: Asked, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        """Pass the request on, and its answer back as it comes."""
        assert self._upstream is not None
        port = self._upstream.port or (443 if self._context else 80)
        theirs, ours = await asyncio.open_connection(self._upstream.hostname, port, ssl=self._context)
        if asked.kind == WATCHES:
            self._watches[writer] = asked
        try:
            ours.write(head + body)
            while data := await theirs.read(1 << 16):
                if asked.kind == WATCHES:
                    await self._until_honest(asked)
                writer.write(data)
                await writer.drain()
        finally:
            ours.close()

    async def _until_honest(self, asked: Asked) -> None:
        """Return once the watch is not to be silent."""
        while self.mode == "silent_watch" and self._is_hostile(asked):
            async with self._turned:
                await self._turned.wait()

    async def _honest(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        match asked.kind:
            case "watch":
                await self._watch(asked, writer)
            case "health":
                await _answer(writer, {"gitVersion": "v1.33.0", "major": "1", "minor": "33"})
            case "discovery":
                await _answer(writer, self._discovery(asked.path))
            case "list" if asked.path in self.objects or asked.path.endswith(("/nodes", "/pods")):
                metadata = {"resourceVersion": str(self.revision)}
                items = self.objects.get(asked.path, [])
                await _answer(writer, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
            case _:
                await self._one(asked, writer)

    async def _one(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        for path, objects in self.objects.items():
            for manifest in objects:
                namespace, name = _place(manifest)
                collection = path
                if namespace:
                    base, _, plural = path.rpartition("/")
                    collection = f"{base}/namespaces/{namespace}/{plural}"
                if asked.path == f"{collection}/{name}":
                    await _answer(writer, manifest)
                    return
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        await _answer(writer, {**status, "message": f"{asked.path} not found"}, "404 Not Found")

    async def _watch(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        since = int(asked.query.get("resourceVersion") or 0)
        for manifest in self.objects.get(asked.path, []):
            if int(manifest["metadata"].get("resourceVersion", 0)) > since:
                writer.write(_chunk(msgspec.json.encode({"type": "ADDED", "object": manifest}) + b"\n"))
        self._watches[writer] = asked
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(float(asked.query.get("timeoutSeconds") or 300)):
                await writer.wait_closed()
        await self._until_honest(asked)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _discovery(self, path: str) -> Manifest:
        if path == "/apis":
            groups = []
            for version in self.resources:
                if "/" in version:
                    name = version.partition("/")[0]
                    entry = {"groupVersion": version, "version": version.partition("/")[2]}
                    groups.append({"name": name, "versions": [entry], "preferredVersion": entry})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        version = path.removeprefix("/apis/").removeprefix("/api/")
        return {"kind": "APIResourceList", "groupVersion": version, "resources": self.resources.get(version, [])}

    # -- hostile

    async def _hostile(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fixed = _FIXED.get(self.mode)
        if fixed is not None:
            await self._send(writer, fixed)
            return
        modes: dict[str, Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]] = {
            "endless_line": self._endless_line,
            "endless_body": self._endless_line,
            "endless_headers": self._endless_headers,
            "gzip_bomb": self._gzip_bomb,
            "endless_pages": self._pages,
            "repeated_continue": self._pages,
            "invented_objects": self._invented,
            "tiny_items": self._tiny_items,
            "huge_objects": self._huge_objects,
            "redirect": self._redirect,
            "silent_watch": self._silent,
            "slow_bytes": self._slow,
            "hang": self._hang,
            "reset": self._reset,
        }
        await modes[self.mode](asked, reader, writer)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        self.sent += len(data)
        writer.write(data)
        await writer.drain()

    async def _endless_line(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A JSON text that never ends: in a watch a line, otherwise a body."""
        await self._send(writer, _head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        begin = b'{"type":"ADDED","object":{"kind":"' if asked.kind == WATCHES else b'{"items":[{"kind":"'
        await self._send(writer, _chunk(begin))
        piece = _chunk(b"a" * (1 << 16))
        while True:
            await self._send(writer, piece)

    async def _endless_headers(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, b"HTTP/1.1 200 OK\r\nX-Long: ")
        while True:
            await self._send(writer, b"a" * (1 << 14))

    async def _gzip_bomb(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A small answer, one gzip stream, that unpacks to 512 MiB."""
        begin = b'{"type":"ADDED","object":"' if asked.kind == WATCHES else b'{"items":["'
        head = _head("200 OK", _JSON, "Content-Encoding: gzip", "Transfer-Encoding: chunked")
        await self._send(writer, head)
        packing = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        await self._send(writer, _chunk(packing.compress(begin) + packing.flush(zlib.Z_FULL_FLUSH)))
        # After a full flush the same bytes unpack to the same text wherever they stand.
        piece = _chunk(packing.compress(b"a" * (1 << 22)) + packing.flush(zlib.Z_FULL_FLUSH))
        for _turn in range(128):
            await self._send(writer, piece)
        await self._send(writer, b"0\r\n\r\n")

    async def _pages(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pages that always name a next one."""
        number = int(asked.query.get("continue") or 0)
        if self.mode == "endless_pages":
            number += 1
        items = [_invented(number * 500 + place, asked.path) for place in range(500)]
        await _answer(writer, {"metadata": {"resourceVersion": "5", "continue": str(number)}, "items": items})

    async def _invented(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Objects nobody asked for: 5,000 in a list, and without end in a watch."""
        if asked.kind != WATCHES:
            items = [_invented(number, asked.path) for number in range(5000)]
            await _answer(writer, {"metadata": {"resourceVersion": "5"}, "items": items})
            return
        await self._send(writer, _head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        number = 0
        while True:
            number += 100
            events = [{"type": "ADDED", "object": _invented(number + place, asked.path)} for place in range(100)]
            await self._send(writer, _chunk(b"\n".join(map(msgspec.json.encode, events)) + b"\n"))

    async def _tiny_items(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ten million bytes of objects that are next to nothing."""
        await self._send(writer, _head("200 OK", _JSON, "Connection: close"))
        begin = b'{"type":"ADDED","object":{"a":[' if asked.kind == WATCHES else b'{"metadata":{},"items":['
        await self._send(writer, begin)
        piece = b"{}," * (1 << 15)
        for _turn in range(100):
            await self._send(writer, piece)
        await self._send(writer, b"{}]}\n")

    async def _huge_objects(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The objects it holds, each with an annotation of 3 MiB."""
        objects = [
            {**found, "metadata": {**found["metadata"], "annotations": {"a": "x" * (3 << 20)}}}
            for found in self.objects.get(asked.path, [])
        ]
        if asked.kind != WATCHES:
            await _answer(writer, {"metadata": {"resourceVersion": str(self.revision)}, "items": objects})
            return
        await self._send(writer, _head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        while True:
            for found in objects:
                self.revision += 1
                found["metadata"]["resourceVersion"] = str(self.revision)
                await self._send(writer, _chunk(msgspec.json.encode({"type": "MODIFIED", "object": found}) + b"\n"))

    async def _redirect(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, _head("302 Found", f"Location: {self.redirect_to}", "Content-Length: 0"))

    async def _silent(self, _: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, _head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        await reader.read()

    async def _slow(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One byte each 50 ms."""
        begin = b'{"type":"ADDED","object":{"a":"' if asked.kind == WATCHES else b'{"items":[],"a":"'
        await self._send(writer, _head("200 OK", _JSON, "Transfer-Encoding: chunked"))
        await self._send(writer, _chunk(begin))
        while True:
            await self._send(writer, _chunk(b"a"))
            await asyncio.sleep(0.05)

    async def _hang(self, _: Asked, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    async def _reset(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()


def _place(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _invented(number: int, path: str) -> Manifest:
    """An object that bears our label and fills 2 KB."""
    metadata = {"name": f"invented-{number}", "namespace": "default", "uid": str(number), "labels": _LABELS}
    metadata["resourceVersion"] = str(number + 1)
    name = path.rpartition("/")[2]
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}
    return {"metadata": metadata, "spec": spec, "data": {"a": name * 200}}


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def _whole(body: bytes, status: str = "200 OK", kind: str = _JSON) -> bytes:
    return _head(status, kind, f"Content-Length: {len(body)}", "Connection: close") + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _answer(writer: asyncio.StreamWriter, body: Manifest, status: str = "200 OK") -> None:
    writer.write(_whole(msgspec.json.encode(body), status))
    await writer.drain()


async def _request(reader: asyncio.StreamReader) -> tuple[Asked, bytes, bytes] | None:
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
    url = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    kind = _kind(method, url.path, query)
    sent = {**headers, "connection": "close", "content-length": str(len(body))}
    sent.pop("transfer-encoding", None)
    head = "".join([f"{first}\r\n", *(f"{name}: {value}\r\n" for name, value in sent.items()), "\r\n"])
    return Asked(method, url.path, query, headers, kind), head.encode("latin-1"), body


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
_FIXED: Final = {
    "html_200": _whole(b"<html><body>The service is under maintenance</body></html>\n", kind="Content-Type: text/html"),
    "empty_200": _whole(b""),
    "wrong_types": _whole(b'{"type":7,"object":[],"metadata":[1],"items":{"a":1},"groups":3,"resources":"x"}\n'),
    "wrong_items": _whole(
        b'{"type":"ADDED","object":{"metadata":{"name":7}},"metadata":{"resourceVersion":"1"},"items":[1,2],'
        b'"groups":[1],"resources":[1],"gitVersion":{}}\n'
    ),
    "bad_utf8": _whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff\xfe"}},"items":[{"a":"\xff"}],"a":"\xff"}\n'
    ),
    "huge_number": _whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"a","generation":%s}},"items":[%s],"groups":[%s],'
        b'"resources":[%s],"metadata":%s}\n' % ((b"9" * 100_000,) * 5)
    ),
    "huge_headers": _head("200 OK", _JSON, *(f"X-{number}: {'a' * 2000}" for number in range(100))) + b"{}",
    "bad_headers": b"HTTP/1.1 200 OK\r\n: nothing\r\nno colon here\r\n\r\n{}",
    "bad_chunks": _head("200 OK", _JSON, "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n-1\r\n",
    "deep_nesting": _whole(
        b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":%s},"items":[%s],"groups":%s,"resources":%s,'
        b'"metadata":%s,"a":%s}\n' % ((_NESTED,) * 6)
    ),
    "truncated": _head("200 OK", _JSON, "Content-Length: 9000") + b'{"type":"ADDED","object":{"metadata":{"na',
    "refuse_401": _whole(b'{"kind":"Status","reason":"Unauthorized","code":401}', "401 Unauthorized"),
    "html_404": _whole(b"<html><body>404 Not Found</body></html>", "404 Not Found", kind="Content-Type: text/html"),
    "success_untrue": _whole(b'{"kind":"Status","apiVersion":"v1","status":"Success","metadata":{}}'),
    "other_object": _whole(
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"y","uid":"z","resourceVersion":"1"}}'
    ),
    "empty_list": _whole(
        b'{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[],"resources":[],"groups":[]}'
    ),
    "refuse_500": _whole(b"[]", "500 Internal Server Error"),
}


@asynccontextmanager
async def hostile_server(upstream: str = "", context: ssl.SSLContext | None = None) -> AsyncIterator[HostileServer]:
    """A running server, honest at first: a proxy of `upstream` where one is named."""
    made = HostileServer(upstream, context)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()

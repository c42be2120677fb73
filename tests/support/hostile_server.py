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
from urllib.parse import urlsplit

import msgspec

from schemas.manifest import Manifest
from tests.support.hostile_answers import (
    FIXED,
    JSON,
    WATCHES,
    Asked,
    answer,
    chunk,
    head,
    invented,
    place,
    read_request,
)


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
            writer.write(chunk(data))
        return len(self._watches)

    def change(self, kind: str, path: str, manifest: Manifest) -> None:
        """Change an object of a collection, and tell it to its watches: `kind` is ADDED, MODIFIED or DELETED."""
        self.revision += 1
        manifest["metadata"]["resourceVersion"] = str(self.revision)
        changed = place(manifest)
        left = [found for found in self.objects.get(path, []) if place(found) != changed]
        self.objects[path] = left if kind == "DELETED" else [*left, manifest]
        line = msgspec.json.encode({"type": kind, "object": manifest}) + b"\n"
        for writer, asked in self._watches.items():
            if asked.path == path and not self._is_hostile(asked):
                writer.write(chunk(line))

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
            found = await read_request(reader)
            if found is None:
                return
            asked, head, body = found
            self.requests.append(asked)
            if self._is_hostile(asked):
                task.set_name("hostile")
                await self.misbehave(asked, reader, writer)
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
                await answer(writer, {"gitVersion": "v1.33.0", "major": "1", "minor": "33"})
            case "discovery":
                await answer(writer, self._discovery(asked.path))
            case "list" if asked.path in self.objects or asked.path.endswith(("/nodes", "/pods")):
                metadata = {"resourceVersion": str(self.revision)}
                items = self.objects.get(asked.path, [])
                await answer(writer, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
            case _:
                await self._one(asked, writer)

    async def _one(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        for path, objects in self.objects.items():
            for manifest in objects:
                namespace, name = place(manifest)
                collection = path
                if namespace:
                    base, _, plural = path.rpartition("/")
                    collection = f"{base}/namespaces/{namespace}/{plural}"
                if asked.path == f"{collection}/{name}":
                    await answer(writer, manifest)
                    return
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        await answer(writer, {**status, "message": f"{asked.path} not found"}, "404 Not Found")

    async def _watch(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", JSON, "Transfer-Encoding: chunked"))
        since = int(asked.query.get("resourceVersion") or 0)
        for manifest in self.objects.get(asked.path, []):
            if int(manifest["metadata"].get("resourceVersion", 0)) > since:
                writer.write(chunk(msgspec.json.encode({"type": "ADDED", "object": manifest}) + b"\n"))
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

    async def misbehave(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request in the present mode, whatever its kind."""
        fixed = FIXED.get(self.mode)
        if fixed is not None:
            await self._send(writer, fixed)
            return
        await _ACTS[self.mode](self, asked, reader, writer)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        self.sent += len(data)
        writer.write(data)
        await writer.drain()
        # A drain does not yield while the other side takes everything, or is gone.
        await asyncio.sleep(0)

    async def _endless_line(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A JSON text that never ends: in a watch a line, otherwise a body."""
        await self._send(writer, head("200 OK", JSON, "Transfer-Encoding: chunked"))
        begin = b'{"type":"ADDED","object":{"kind":"' if asked.kind == WATCHES else b'{"items":[{"kind":"'
        await self._send(writer, chunk(begin))
        piece = chunk(b"a" * (1 << 16))
        while True:
            await self._send(writer, piece)

    async def _endless_headers(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, b"HTTP/1.1 200 OK\r\nX-Long: ")
        while True:
            await self._send(writer, b"a" * (1 << 14))

    async def _gzip_bomb(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A small answer, one gzip stream, that unpacks to 512 MiB."""
        begin = b'{"type":"ADDED","object":"' if asked.kind == WATCHES else b'{"items":["'
        await self._send(writer, head("200 OK", JSON, "Content-Encoding: gzip", "Transfer-Encoding: chunked"))
        packing = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        await self._send(writer, chunk(packing.compress(begin) + packing.flush(zlib.Z_FULL_FLUSH)))
        # After a full flush the same bytes unpack to the same text wherever they stand.
        piece = chunk(packing.compress(b"a" * (1 << 22)) + packing.flush(zlib.Z_FULL_FLUSH))
        for _turn in range(128):
            await self._send(writer, piece)
        await self._send(writer, b"0\r\n\r\n")

    async def _pages(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pages that always name a next one."""
        number = int(asked.query.get("continue") or 0)
        if self.mode == "endless_pages":
            number += 1
        items = [invented(number * 500 + place, asked.path) for place in range(500)]
        await answer(writer, {"metadata": {"resourceVersion": "5", "continue": str(number)}, "items": items})

    async def _invented(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Objects nobody asked for: 5,000 in a list, and without end in a watch."""
        if asked.kind != WATCHES:
            items = [invented(number, asked.path) for number in range(5000)]
            await answer(writer, {"metadata": {"resourceVersion": "5"}, "items": items})
            return
        await self._send(writer, head("200 OK", JSON, "Transfer-Encoding: chunked"))
        number = 0
        while True:
            number += 100
            events = [{"type": "ADDED", "object": invented(number + place, asked.path)} for place in range(100)]
            await self._send(writer, chunk(b"\n".join(map(msgspec.json.encode, events)) + b"\n"))

    async def _tiny_items(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ten million bytes of objects that are next to nothing."""
        await self._send(writer, head("200 OK", JSON, "Connection: close"))
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
            await answer(writer, {"metadata": {"resourceVersion": str(self.revision)}, "items": objects})
            return
        await self._send(writer, head("200 OK", JSON, "Transfer-Encoding: chunked"))
        while True:
            for found in objects:
                self.revision += 1
                found["metadata"]["resourceVersion"] = str(self.revision)
                await self._send(writer, chunk(msgspec.json.encode({"type": "MODIFIED", "object": found}) + b"\n"))

    async def _redirect(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, head("302 Found", f"Location: {self.redirect_to}", "Content-Length: 0"))

    async def _silent(self, _: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, head("200 OK", JSON, "Transfer-Encoding: chunked"))
        await reader.read()

    async def _slow(self, asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One byte each 50 ms."""
        begin = b'{"type":"ADDED","object":{"a":"' if asked.kind == WATCHES else b'{"items":[],"a":"'
        await self._send(writer, head("200 OK", JSON, "Transfer-Encoding: chunked"))
        await self._send(writer, chunk(begin))
        while True:
            await self._send(writer, chunk(b"a"))
            await asyncio.sleep(0.05)

    async def _hang(self, _: Asked, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    async def _reset(self, _: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()


_ACTS: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    "endless_line": HostileServer._endless_line,
    "endless_body": HostileServer._endless_line,
    "endless_headers": HostileServer._endless_headers,
    "gzip_bomb": HostileServer._gzip_bomb,
    "endless_pages": HostileServer._pages,
    "repeated_continue": HostileServer._pages,
    "invented_objects": HostileServer._invented,
    "tiny_items": HostileServer._tiny_items,
    "huge_objects": HostileServer._huge_objects,
    "redirect": HostileServer._redirect,
    "silent_watch": HostileServer._silent,
    "slow_bytes": HostileServer._slow,
    "hang": HostileServer._hang,
    "reset": HostileServer._reset,
}
MODES: Final = (*FIXED, *_ACTS)
"""What it can be made to do."""


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

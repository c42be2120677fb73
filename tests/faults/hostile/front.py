"""A process of HTTPS fronts between services and API servers; each passes everything on until it is told to misbehave.

`python -m tests.faults.hostile.front PLAN`: the plan is a JSON file that names the fronts and their targets. It prints
a `Ready` line as JSON. Its plain admin address takes an `Order` by POST /<front>.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct

from services.apiserver.auth.certificate_authority import Authority
from tests.support.hostile_answers import WATCHES, asked_of
from tests.support.hostile_server import HostileServer

HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)


class Plan(Struct, frozen=True):
    """All fronts of a process."""

    directory: str
    installation: str
    """The file with the ports of what is behind the fronts, by the same names."""
    fronts: tuple[str, ...]


class Ready(Struct, frozen=True):
    """Ports of the fronts by name, and the one of the admin address."""

    admin: int
    ports: dict[str, int]


class Order(Struct, frozen=True, omit_defaults=True):
    """What a front does from now on; every field replaces what was ordered before."""

    misdeed: str = ""
    """How requests are answered, a mode of a HostileServer; empty: they are passed on."""
    freeze: bool = False
    """Streams that are open now say nothing more; new connections are as ever."""
    cut: bool = False
    """Break every open connection, once."""
    say: str = ""
    """A line that each open stream says, once."""


class Stream:
    """One open watch."""

    def __init__(self, answer: web.StreamResponse, request: web.BaseRequest) -> None:
        self.answer = answer
        self.request = request
        self.frozen = False

    def cut(self) -> None:
        """Break its connection."""
        if self.request.transport is not None:
            self.request.transport.abort()


class Front:
    """One address with a certificate."""

    def __init__(self, port: Callable[[], int]) -> None:
        self.order = Order()
        self.hostile = HostileServer("", None)
        self.streams: set[Stream] = set()
        self._port = port
        self._connections: set[asyncio.BaseTransport] = set()
        self._http: aiohttp.ClientSession | None = None

    @property
    def http(self) -> aiohttp.ClientSession:
        """Connections to the target."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, limit=0),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=1 << 20,
                max_line_size=1 << 18,
                max_field_size=1 << 18,
            )
        return self._http

    async def obey(self, order: Order) -> None:
        """Do what was ordered."""
        before, self.order = self.order, order
        self.hostile.mode = order.misdeed
        if order.say:
            line = order.say.encode() + b"\n"
            for stream in list(self.streams):
                with suppress(OSError, RuntimeError):
                    await stream.answer.write(line)
        for stream in list(self.streams):
            stream.frozen = stream.frozen or order.freeze
        # A stream that stood still does not come back to life: its far end has long forgotten it.
        for stream in [stream for stream in self.streams if stream.frozen and not order.freeze]:
            stream.cut()
        ended = bool(before.misdeed) and before.misdeed != order.misdeed
        if order.cut or ended:
            for connection in list(self._connections):
                if isinstance(connection, asyncio.Transport):
                    connection.abort()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        assert request.transport is not None
        self._connections.add(request.transport)
        if len(self._connections) > 256:
            self._connections = {one for one in self._connections if not one.is_closing()}
        asked = asked_of(request.method, request.raw_path, dict(request.headers))
        if not self.order.misdeed:
            return await self._pass_on(request, asked.kind)
        writer = asyncio.StreamWriter(request.transport, request.protocol, None, asyncio.get_running_loop())
        with suppress(ConnectionError):
            await self.hostile.misbehave(asked, asyncio.StreamReader(), writer)
        writer.close()
        return web.Response()

    async def _pass_on(self, request: web.BaseRequest, kind: str) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        body = await request.read()
        url = f"https://127.0.0.1:{self._port()}{request.raw_path}"
        try:
            async with self.http.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False
            ) as found:
                return await self._answer(request, kind, found)
        except (aiohttp.ClientError, TimeoutError) as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError(str(error)) from None

    async def _answer(self, request: web.BaseRequest, kind: str, found: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {name: value for name, value in found.headers.items() if name.lower() not in HOP}
        if kind != WATCHES or found.status != 200:
            return web.Response(status=found.status, headers=headers, body=await found.read())
        answer = web.StreamResponse(status=found.status, headers=headers)
        await answer.prepare(request)
        stream = Stream(answer, request)
        self.streams.add(stream)
        try:
            async for piece in found.content.iter_any():
                if not stream.frozen:
                    await answer.write(piece)
        finally:
            self.streams.discard(stream)
        while stream.frozen:
            # The far end has left, and nobody says so.
            await asyncio.sleep(0.2)
            if request.transport is None or request.transport.is_closing():
                break
        return answer


def context(directory: Path) -> ssl.SSLContext:
    """The certificate of all fronts, by an authority of their own."""
    authority = Authority(directory, "fronts-ca")
    authority.load()
    certificate, key = authority.server(("127.0.0.1",))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made


async def serve(plan: Plan) -> None:
    """Serve until the process is ended."""
    installation = Path(plan.installation)

    def port(name: str) -> int:
        found: int = msgspec.json.decode(installation.read_bytes())["ports"][name]
        return found

    tls = context(Path(plan.directory))
    fronts: dict[str, Front] = {}
    ports: dict[str, int] = {}
    for name in plan.fronts:
        front = fronts[name] = Front(partial(port, name))
        runner = web.ServerRunner(
            web.Server(front.handle, access_log=None, handler_cancellation=True), shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        ports[name] = runner.addresses[0][1]

    async def admin(request: web.BaseRequest) -> web.StreamResponse:
        await fronts[request.path.strip("/")].obey(msgspec.json.decode(await request.read(), type=Order))
        return web.Response()

    runner = web.ServerRunner(web.Server(admin, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(msgspec.json.encode(Ready(runner.addresses[0][1], ports)).decode() + "\n")
    sys.stdout.flush()
    await _parent_gone()


async def _parent_gone() -> None:
    """Return once whoever started this process closed its standard input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    asyncio.run(serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)))

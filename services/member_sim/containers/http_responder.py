"""The HTTP server of a simulated container: says who it is, gives as many bytes as asked for, and sends bodies back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import h11

from services.member_sim.containers.container_files import INDEX
from services.member_sim.containers.pod_containers import Container

PIECE: Final = 32 << 10
_MOST_HEAD: Final = 32 << 10
_MOST_BYTES: Final = 10**12
_DEFAULT_PORTS: Final = {"nginx": 80, "httpd": 80, "caddy": 80, "apache": 80}

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


def listening(containers: list[Container]) -> dict[int, Container]:
    """The ports at which running containers of a pod listen: those they declare, else that of their image."""
    found: dict[int, Container] = {}
    for container in containers:
        if not container.running:
            continue
        declared = [port for port in container.spec.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
        ports = [int(port.get("containerPort") or 0) for port in declared]
        for port in ports or [_DEFAULT_PORTS.get(container.image, 0)]:
            if port:
                found.setdefault(port, container)
    return found


class HttpResponder:
    """Answers the requests of one connection."""

    def __init__(self, container: Container, port: int, read: Read, write: Write) -> None:
        self._container, self._port = container, port
        self._read, self._write = read, write
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD)

    async def serve(self) -> None:
        """Answer until the client closes, or sends what is no HTTP; raises ConnectionError when it breaks off."""
        try:
            while True:
                event = await self._next()
                if not isinstance(event, h11.Request):
                    return
                await self._answer(event)
                if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as e:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._whole(e.error_status_hint, f"{e}\n".encode(), "GET")

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._read())
        return event

    async def _send(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            await self._write(data)

    async def _answer(self, request: h11.Request) -> None:
        method, path = request.method.decode(), request.target.decode("latin-1").partition("?")[0]
        if method in ("POST", "PUT"):
            await self._echo(request)
            return
        while not isinstance(await self._next(), h11.EndOfMessage):
            continue
        if method not in ("GET", "HEAD"):
            await self._whole(405, b"GET, HEAD, POST and PUT are answered here\n", method)
        elif path.startswith("/bytes/"):
            await self._many(path.removeprefix("/bytes/"), method)
        elif path == "/healthz":
            await self._whole(200, b"ok\n", method)
        elif path in ("/", "/index.html", "/hostname"):
            web = self._port == _DEFAULT_PORTS.get(self._container.image) and path != "/hostname"
            name = self._container.pod["metadata"]["name"]
            await self._whole(200, INDEX if web else f"{name}\n".encode(), method)
        else:
            await self._whole(404, b"there is nothing at this path\n", method)

    async def _head(self, code: int, length: int | None) -> None:
        meta = self._container.pod["metadata"]
        headers = [("Server", "simulated"), ("X-Pod", f"{meta.get('namespace', '')}/{meta['name']}")]
        headers.append(("Content-Type", "text/plain; charset=utf-8"))
        if length is not None:
            headers.append(("Content-Length", str(length)))
        await self._send(h11.Response(status_code=code, headers=headers))

    async def _whole(self, code: int, body: bytes, method: str) -> None:
        await self._head(code, len(body))
        if method != "HEAD":
            await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _many(self, number: str, method: str) -> None:
        """So many zero bytes, made as they are sent."""
        if not number.isdigit() or len(number) > len(str(_MOST_BYTES)):
            await self._whole(404, b"use /bytes/NUMBER\n", method)
            return
        left = int(number)
        await self._head(200, left)
        while left and method != "HEAD":
            size = min(left, PIECE)
            await self._send(h11.Data(data=bytes(size)))
            left -= size
        await self._send(h11.EndOfMessage())

    async def _echo(self, request: h11.Request) -> None:
        """Send a body back as it comes."""
        length = next((int(value) for name, value in request.headers if name == b"content-length"), None)
        event = await self._next()
        await self._head(200, length)
        while isinstance(event, h11.Data):
            await self._send(h11.Data(data=event.data))
            event = await self._next()
        if isinstance(event, h11.EndOfMessage):
            await self._send(h11.EndOfMessage())

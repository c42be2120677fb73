"""Connections with limits of time: on the TLS handshake, the head of a request, idleness, and answers left unread."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from services.apiserver.core.status_errors import ApiError, bad_request, internal

log = structlog.get_logger(__name__)


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Seconds after which a connection is closed.

    `handshake` bounds TLS, `head` the line and the headers of the first request, `idle` the time between two requests,
    headers of the second included, `unread` how long a client may leave an answer unread.
    """

    handshake: float = 10.0
    head: float = 32.0
    idle: float = 180.0
    unread: float = 60.0


LONGEST_LINE: Final = 256 << 10
"""Bytes of the first line of a request: versions and tokens of the global proxy grow with the number of clusters."""
SERVER_NAME: Final = "fleetlog"
"""The Server header of all answers: neither the library nor its version."""


class _Connection(RequestHandler):
    """One connection. aiohttp closes idle ones; the other limits are watched here."""

    __slots__ = ("_head_timer", "_limits", "_unread_timer")

    def __init__(self, manager: web.Server, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(manager, keepalive_timeout=limits.idle, max_line_size=LONGEST_LINE, **kwargs)
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._head_timer = self._loop.call_later(self._limits.head, self._late)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the limits."""
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _late(self) -> None:
        self._head_timer = None
        if not self._request_count:
            self._abort()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._unread_timer = self._loop.call_later(self._limits.unread, self._abort)

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _abort(self) -> None:
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Note what ended a connection: a body that is not coded as its headers say, or a fault of the library."""
        problem = kw.get("exc_info")
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        log.debug("connection_ended", reason=reason if isinstance(problem, BaseException) else str(args[:1]))

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no HTTP, or what failed where no handler saw it, with a Status and no trace."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer had begun")
        if isinstance(exc, ConnectionError):
            # The client went away: that is no fault, and must not fill the log.
            error = bad_request("the connection ended before the request did")
        elif status >= 500:
            log.error("request_failed", reason="outside of its handler", exc_info=exc)
            error = internal("Internal error occurred: the request could not be answered")
        else:
            first = (message or "").strip().partition("\n")[0][:200].encode("ascii", "replace").decode()
            error = bad_request(f"the request is no valid HTTP: {first}" if first else "the request is no valid HTTP")
        response = _response(error)
        response.force_close()
        return response


def _response(error: ApiError) -> web.Response:
    return web.Response(
        body=error.encode(),
        status=error.code,
        headers={"Content-Type": "application/json", "Server": SERVER_NAME},
    )


class BoundedServer(web.Server):
    """Makes connections with limits for a handler that answers all requests."""

    def __init__(
        self,
        handler: Callable[[BaseRequest], Awaitable[web.StreamResponse]],
        limits: ConnectionLimits,
        *,
        request_factory: Any,
    ) -> None:
        super().__init__(handler, request_factory=request_factory)
        self._limits = limits

    def __call__(self) -> RequestHandler:
        """A connection that was accepted."""
        return _Connection(self, self._limits, loop=self._loop, access_log=None)


class BoundedSite(web.TCPSite):
    """Listens with a limit on TLS handshakes."""

    def __init__(
        self, runner: web.ServerRunner, host: str, port: int, limits: ConnectionLimits, context: ssl.SSLContext | None
    ) -> None:
        super().__init__(runner, host, port, ssl_context=context, backlog=1024, reuse_address=True)
        self._limits = limits
        self.bound = 0

    async def start(self) -> None:
        """Listen; `bound` is the port afterwards. Raises OSError when it is taken."""
        await web.BaseSite.start(self)
        assert self._runner.server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            reuse_address=self._reuse_address,
            ssl_handshake_timeout=self._limits.handshake if self._ssl_context is not None else None,
        )
        self.bound = self._server.sockets[0].getsockname()[1]

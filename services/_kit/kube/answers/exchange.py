"""One HTTP exchange with another system: session, guard before what changes something, translated errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from services._kit.base.answer_limits import COUNTS
from services._kit.kube.api import BadAnswer, NotLeading, Unreachable
from services._kit.kube.route import Route, connector

if TYPE_CHECKING:
    from services._kit.kube.client import KubeClient

E = TypeVar("E", bound=BaseException)

CONNECT_SECONDS: Final = 10
READ_BUFFER: Final = 64 << 10
"""Of one connection, in bytes; twice as much waits before its sender is held up."""
IDENTITY: Final = {"Accept-Encoding": "identity"}
GZIP: Final = {"Accept-Encoding": "gzip"}
_MALFORMED: Final = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, aiohttp.ContentTypeError)
_BROKEN: Final = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""What a client raises for a connection that failed, an answer that is no HTTP, or a session that was closed."""


class GuardedRequest(aiohttp.ClientRequest):
    """A request that asks the guard of its client at the last moment: it has its connection, nothing was written."""

    client: KubeClient

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send it once it may be sent; raises FenceLost when it never will be."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds:
            await guard.wait()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: aiohttp.connector.Connection, content_length: int | None = None
    ) -> None:
        """Write what was held back so far, unless the leader stood still since it was asked."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds and conn.protocol is not None:
            conn.protocol.set_exception(aiohttp.ClientConnectionError("not sent: the lease has to be confirmed first"))
            return
        await super().write_bytes(writer, conn, content_length)


def session(
    client: KubeClient,
    headers: Mapping[str, str],
    ssl_context: ssl.SSLContext | None,
    *,
    connections: int,
    route: Route,
) -> aiohttp.ClientSession:
    """A session that unpacks nothing by itself and whose redirects are for its users to refuse; 0: any number."""
    trusted = ssl_context if ssl_context is not None else True
    return aiohttp.ClientSession(
        connector=connector(route, limit=connections, ssl=trusted, keepalive_timeout=75),
        request_class=type("Request", (GuardedRequest,), {"client": client}),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        read_bufsize=READ_BUFFER,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@contextmanager
def failures(what: str, seconds: float) -> Iterator[None]:
    """Raise Unreachable or BadAnswer, beginning with `what`, for what fails within; `seconds` was the time given."""
    try:
        yield
    except NotLeading:
        raise
    except BadAnswer as error:
        COUNTS.bad_answers += 1
        raise type(error)(f"{what}: the answer cannot be used: {error}") from error
    except Unreachable:
        raise
    except aiohttp.ConnectionTimeoutError as error:
        raise Unreachable(f"{what}: no connection within {CONNECT_SECONDS} s") from error
    except TimeoutError as error:
        raise Unreachable(f"{what}: no answer within {seconds:g} s") from error
    except _MALFORMED as error:
        COUNTS.bad_answers += 1
        raise BadAnswer(f"{what}: the answer is no HTTP: {_text(error)}") from error
    except _BROKEN as error:
        raise Unreachable(f"{what}: {_text(error)}") from error


def bare(error: E) -> E:
    """An error to be kept, without the frames that it and its causes went through: they hold what was read."""
    chain: BaseException | None = error
    while chain is not None:
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__
    return error


def _text(error: BaseException) -> str:
    """What happened, on one line of bounded length."""
    return " ".join((str(error) or type(error).__name__).split())[:300]


def check_json(data: bytes, content_type: str) -> None:
    """Raise BadAnswer for a body that cannot be a JSON object: a page for people, nothing at all."""
    begin = data.lstrip()[:60]
    if not begin.startswith((b"{", b"[")):
        what = f"begins with {begin!r}" if begin else "is empty"
        raise BadAnswer(f"it is no JSON object: it {what} ({content_type or 'no content type'})")

"""A NATS client that delivers messages while they are read, without a task per subscription.

Every service reads most of the log, so what one message costs counts many times. The library puts each into a queue
that a task of its subscription empties; a direct subscription is called at once instead.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from aiohappyeyeballs import start_connection
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport
from nats.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionDrainingError,
    Error,
    MaxPayloadError,
    OutboundBufferLimitError,
    ProtocolError,
)
from nats.protocol.parser import Parser

Handler = Callable[[Msg], None]

REFUSED_PAUSE: Final = 1.0
"""Seconds between two attempts of a client that the server refused after it was connected."""
NEXT_ADDRESS_AFTER: Final = 0.25
"""Seconds after which the next address of a name is tried beside those that have not answered (RFC 8305)."""
_READ_BYTES: Final = 32 * 1024
_REFUSED: Final = "authorization violation"
_END: Final = b"\r\n"
_WITH_HEADERS: Final = b"HMSG"
_WITH_REPLY: Final = {b"MSG": 5, _WITH_HEADERS: 6}
"""Words of a message's first line where it names a subject for answers."""
_MESSAGES: Final = frozenset(_WITH_REPLY)


class _Parser(Parser):  # type: ignore[misc]  # the library ships no types
    """Takes messages apart as the library's parser does, which gets all other lines one by one."""

    def reset(self) -> None:
        """Forget what was read of an unfinished frame: the connection is another one."""
        super().reset()
        self._begun: list[bytes] = []
        self._have = self._need = 0

    async def parse(self, data: bytes = b"") -> None:
        """Take apart what was read; raises the library's ProtocolError."""
        if self._begun:
            self._begun.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            # Joined once, however many pieces a large message comes in.
            data = b"".join(self._begun)
            self._begun.clear()
        at, end = 0, len(data)
        while at < end:
            line = data.find(_END, at)
            if line < 0:
                break
            words = data[at:line].split()
            if words and words[0] in _MESSAGES:
                try:
                    body, sid, stop, start = self._places(words, line + 2)
                except (ValueError, IndexError):
                    raise ProtocolError("nats: malformed MSG") from None
                if stop + 2 > end:
                    self._keep(data, at, stop + 2)
                    return
                at = stop + 2
                reply = words[3] if len(words) == _WITH_REPLY[words[0]] else b""
                await self._message(sid, words[1], reply, data[start:stop], data[body:start])
            else:
                await super().parse(data[at : line + 2])
                at = line + 2
        if at < end:
            self._keep(data, at, 0)

    @staticmethod
    def _places(words: list[bytes], body: int) -> tuple[int, int, int, int]:
        """Where headers begin, the subscription, where the payload ends and where it begins."""
        start = body + int(words[-2]) if words[0] == _WITH_HEADERS else body
        return body, int(words[2]), body + int(words[-1]), start

    async def _message(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes) -> None:
        if not self.nc.take(sid, subject, reply, data, head):
            await self.nc._process_msg(sid, subject, reply, data, head or None)

    def _keep(self, data: bytes, at: int, need: int) -> None:
        """Wait for the rest of a frame that ends at `need` (0: not known yet)."""
        self._begun.append(data[at:])
        self._have = len(data) - at
        self._need = need - at if need else 0


class _OverTls(asyncio.StreamReaderProtocol):
    """Ends with its peer: TLS knows no half-closed connections, and asyncio logs a line for each that asks for one."""

    def eof_received(self) -> bool:
        """Let go of the transport."""
        super().eof_received()
        return False


class _Transport(TcpTransport):  # type: ignore[misc]  # the library ships no types
    """Connects to whichever address of a name answers first: that of a pod that is gone never does."""

    async def connect(self, uri: Any, buffer_size: int, connect_timeout: float) -> None:
        """Open the connection; raises OSError or TimeoutError where no address answers."""
        async with asyncio.timeout(connect_timeout):
            loop = asyncio.get_running_loop()
            addresses = await loop.getaddrinfo(uri.hostname, uri.port, type=socket.SOCK_STREAM)
            # uvloop cannot do this by itself.
            channel = await start_connection(addresses, happy_eyeballs_delay=NEXT_ADDRESS_AFTER)
            try:
                reader, writer = await asyncio.open_connection(sock=channel, limit=buffer_size)
            except BaseException:
                channel.close()
                raise
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer

    async def connect_tls(self, uri: Any, ssl_context: Any, buffer_size: int, connect_timeout: float) -> None:
        """Go on over TLS; `uri` is an address or a name. Raises OSError or TimeoutError."""
        reader, loop = asyncio.StreamReader(limit=buffer_size), asyncio.get_running_loop()
        protocol = _OverTls(reader)
        name = uri if isinstance(uri, str) else uri.hostname
        plain = self._bare_io_writer.transport
        try:
            async with asyncio.timeout(connect_timeout):
                transport = await loop.start_tls(plain, protocol, ssl_context, server_hostname=name)
            if transport is None:
                raise ConnectionResetError("the server hung up")
        except BaseException:
            plain.abort()
            # The transport has told its first protocol nothing since: who waited for the end would wait for ever.
            self._io_writer = None  # type: ignore[assignment]  # as before a connection
            raise
        self._io_reader, self._io_writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class QuickClient(Client):  # type: ignore[misc]  # the library ships no types
    """The client; it calls `on_bug` for a direct handler that raised, which must never end the reading."""

    def __init__(self) -> None:
        super().__init__()
        self.on_bug: Callable[[Exception], None] = lambda _: None
        self._direct: dict[int, Handler] = {}
        self._transport: Any = None
        self._ps = _Parser(self)

    async def subscribe_direct(self, subject: str, handler: Handler) -> Any:
        """Call a function with every message on a subject, in the order in which all direct ones arrive."""
        # The library takes the next number before it waits for anything; an answer may come before it returns.
        sid = self._sid + 1
        self._direct[sid] = handler
        try:
            return await self.subscribe(subject)
        except BaseException:
            self._direct.pop(sid, None)
            raise

    async def publish_with_head(self, subject: str, head: bytes, data: bytes) -> None:
        """Publish a message whose headers are one text in the form of the protocol already.

        It is sent with what is published next: the caller has to publish its last message otherwise. Raises what
        `publish` raises.
        """
        if self.is_closed:
            raise ConnectionClosedError
        if self.is_draining_pubs:
            raise ConnectionDrainingError
        if not self.is_connected and len(data) + self._pending_data_size > self._max_pending_size:
            raise OutboundBufferLimitError
        if len(data) > self._max_payload:
            raise MaxPayloadError
        size = len(head)
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(data)
        await self._send_command(b"HPUB %b  %d %d\r\n%b%b\r\n" % (subject.encode(), size, size + len(data), head, data))

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        try:
            return await super()._flush_pending(force_flush)
        except RuntimeError as error:
            # Its flusher ended with a transport that broke a moment ago, and it writes to that itself. What is
            # pending stays so, as everything does that is published without a connection.
            await self._process_op_err(error)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

    async def _attempt_reconnect(self) -> None:
        # It would wait until a server that reads nothing has read what was written to it.
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        await super()._attempt_reconnect()

    async def _process_err(self, err_msg: str) -> None:
        # The server ends connections whose password was replaced while it ran. The library would close for good; the
        # next attempt reads the password again.
        if _REFUSED in err_msg.lower() and self.options["allow_reconnect"] and self.is_connected:
            await self._process_op_err(AuthorizationError())
            return
        await super()._process_err(err_msg)

    async def _process_connect_init(self) -> None:
        again = self.is_reconnecting
        try:
            await super()._process_connect_init()
        except Error as error:
            if again and _REFUSED in str(error).lower():
                # It stays so until a file or the users of the server change.
                await asyncio.sleep(REFUSED_PAUSE)
            raise

    async def close(self) -> None:
        """Close; whatever was not sent by now is dropped."""
        # The library would write it, and a transport that broke a moment ago raises for that, with all left open.
        self._pending.clear()
        self._pending_data_size = 0
        await super().close()

    async def _connect_to_server(self, server: Any) -> None:
        # An attempt that failed after its socket was open leaves it so, and the next one forgets it.
        if self._transport is not None:
            self._transport.close()
        if server.uri.scheme in ("ws", "wss"):
            await super()._connect_to_server(server)
            return
        server.last_attempt = time.monotonic()
        self._transport = _Transport()
        await self._transport.connect(server.uri, _READ_BYTES, self.options["connect_timeout"])

    def take(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes) -> bool:
        """Hand a message to its direct handler; false when it has none."""
        handler = self._direct.get(sid)
        if handler is None:
            return False
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            headers = Headers(head) if head else None
            handler(Msg(self, subject.decode(), reply.decode(), data, headers, None, False, sid))
        except Exception as error:  # noqa: BLE001 - one message's trouble must not end the reading of all others
            self.on_bug(error)
        return True

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._direct.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return _lines(raw.decode("utf-8", "replace"))


def _lines(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\r\n"))
    return {name.strip(): value.strip() for name, colon, value in lines if colon}


class Headers(Mapping[str, str]):
    """Headers of a message, parsed on access; a status of the server becomes `Status` and `Description`."""

    __slots__ = ("_found", "_head")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._found: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        found = self._found
        if found is None:
            first, _, rest = self._head.decode("utf-8", "replace").partition("\r\n")
            found = self._found = {}
            words = first.split(" ", 2)
            if len(words) > 1 and words[1].isdigit():
                found["Status"] = words[1]
                if len(words) > 2:
                    found["Description"] = words[2]
            found.update(_lines(rest))
        return found

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """The value of one header, or the default."""
        if self._found is not None or name in _OF_THE_SERVER:
            return self._all().get(name, default)
        # A lookup of one or two of many headers need not parse all of them.
        head, sought = self._head, _beginning(name)
        at = head.rfind(sought)
        if at < 0:
            return default
        at += len(sought)
        end = head.find(_END, at)
        return head[at : end if end >= 0 else len(head)].decode("utf-8", "replace").strip()


_OF_THE_SERVER: Final = frozenset({"Status", "Description"})


@cache
def _beginning(name: str) -> bytes:
    return f"\r\n{name}:".encode()

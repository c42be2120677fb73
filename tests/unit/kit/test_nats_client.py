"""What the server sends reaches its handler whole and in order, however the bytes are cut."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, MaxPayloadError, ProtocolError

from services._kit.log.nats_client import Headers, QuickClient
from services.apiserver.auth.certificate_authority import Authority

DIRECT, QUEUED = 1, 2
STATUS = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n"
PLAIN = b"NATS/1.0\r\nFleetlog-Event-Id: a:b\r\nEmpty:\r\n\r\n"
BARE = b"NATS/1.0 503\r\n\r\n"

Seen = tuple[str, str, bytes, dict[str, str] | None]


def frame(sid: int, subject: str, data: bytes, head: bytes = b"", reply: str = "") -> bytes:
    words = [subject, str(sid), *([reply] if reply else [])]
    if head:
        words += [str(len(head)), str(len(head) + len(data))]
    else:
        words.append(str(len(data)))
    return b"%s %s\r\n%s%s\r\n" % (b"HMSG" if head else b"MSG", " ".join(words).encode(), head, data)


FRAMES = b"".join(
    [
        frame(DIRECT, "a.b", b"one"),
        frame(DIRECT, "a.c", b"MSG x 1 3\r\nHMSG", PLAIN, "$JS.ACK.x"),
        b"+OK\r\n",
        frame(QUEUED, "q.1", b"queued", PLAIN),
        frame(DIRECT, "a.d", b"", STATUS),
        frame(DIRECT, "a.e", b"\r\n", BARE, "r"),
        frame(DIRECT, "a.f", b"x" * 5000, PLAIN),
        b"PONG\r\n",
        frame(3, "nobody", b"gone"),
        frame(DIRECT, "a.g", b"last"),
    ]
)


def seen(message: Msg) -> Seen:
    return message.subject, message.reply, message.data, dict(message.headers) if message.headers else None


async def as_the_library_reads() -> list[Seen]:
    """What the library's own client makes of the frames."""
    client = Client()
    found: list[Seen] = []
    client._subs = {sid: _Queued(found) for sid in (DIRECT, QUEUED)}
    client._pongs = []
    await client._ps.parse(FRAMES)
    return found


class _Queued:
    """Takes the place of a subscription of the library."""

    def __init__(self, found: list[Seen]) -> None:
        self._received = self._max_msgs = self._pending_size = self._pending_bytes_limit = 0
        self._jsi = self._future = None
        self._pending_queue = self
        self._found = found

    def put_nowait(self, message: Msg) -> None:
        self._found.append(seen(message))


def client_with(found: list[Seen]) -> QuickClient:
    client = QuickClient()
    client._direct[DIRECT] = lambda message: found.append(seen(message))
    client._subs = {DIRECT: _Queued([]), QUEUED: _Queued(found)}
    client._pongs = []
    return client


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61, 500, 4096, 1 << 16])
async def test_frames_cut_anywhere_are_read_as_the_library_reads_them(size: int) -> None:
    found: list[Seen] = []
    client = client_with(found)
    for at in range(0, len(FRAMES), size):
        await client._ps.parse(FRAMES[at : at + size])
    assert found == await as_the_library_reads()
    assert len(found) == 7


async def test_a_frame_cut_at_any_place_is_read_once() -> None:
    text = frame(DIRECT, "a.b", b"first", PLAIN) + frame(DIRECT, "a.b", b"second")
    for cut in range(1, len(text)):
        found: list[Seen] = []
        client = client_with(found)
        await client._ps.parse(text[:cut])
        await client._ps.parse(text[cut:])
        assert [data for _, _, data, _ in found] == [b"first", b"second"], f"cut at {cut}"


async def test_raising_handler_is_reported_and_reading_goes_on() -> None:
    found: list[bytes] = []
    client = QuickClient()
    bugs: list[Exception] = []
    client.on_bug = bugs.append

    def take(message: Msg) -> None:
        if message.data == b"bad":
            raise KeyError("broken")
        found.append(message.data)

    client._direct[DIRECT] = take
    await client._ps.parse(frame(DIRECT, "s", b"bad") + frame(DIRECT, "s", b"good"))
    assert found == [b"good"]
    assert [str(bug) for bug in bugs] == ["'broken'"]


async def test_after_unsubscribing_nothing_is_handed_over() -> None:
    found: list[Seen] = []
    client = client_with(found)
    client._remove_sub(DIRECT)
    await client._ps.parse(frame(DIRECT, "s", b"late") + frame(QUEUED, "s", b"on time"))
    assert [data for _, _, data, _ in found] == [b"on time"]


async def test_new_connection_drops_the_rest_of_an_old_frame() -> None:
    found: list[Seen] = []
    client = client_with(found)
    await client._ps.parse(frame(DIRECT, "s", b"cut off")[:-4])
    client._ps.reset()
    await client._ps.parse(frame(DIRECT, "s", b"anew"))
    assert [data for _, _, data, _ in found] == [b"anew"]


@pytest.mark.parametrize("line", [b"MSG s\r\n", b"MSG s one 3\r\nabc\r\n", b"HMSG s 1 x 3\r\nabc\r\n"])
async def test_a_broken_first_line_of_a_message_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        await client_with([])._ps.parse(line)


async def test_what_is_no_message_of_the_protocol_is_refused() -> None:
    with pytest.raises(ProtocolError):
        await client_with([])._ps.parse(b"NONSENSE 1 2\r\n")


async def test_a_subscription_that_could_not_be_sent_leaves_no_handler() -> None:
    client = QuickClient()
    client._status = Client.CLOSED
    with pytest.raises(Exception, match="closed"):
        await client.subscribe_direct("s", lambda _: None)
    assert not client._direct


def test_headers_tell_status_and_values() -> None:
    idle, plain = Headers(STATUS), Headers(PLAIN)
    assert (idle.get("Status"), idle["Description"], idle["Nats-Last-Consumer"]) == ("100", "Idle Heartbeat", "7")
    assert dict(plain) == {"Fleetlog-Event-Id": "a:b", "Empty": ""}
    assert dict(Headers(BARE)) == {"Status": "503"}
    assert plain.get("Missing", "none") == "none"


async def test_answers_come_in_the_order_of_arrival() -> None:
    order: list[Any] = []
    client = QuickClient()
    client._direct[1] = lambda message: order.append((1, message.data))
    client._direct[2] = lambda message: order.append((2, message.data))
    await client._ps.parse(frame(1, "a", b"0") + frame(2, "b", b"1") + frame(1, "a", b"2"))
    await asyncio.sleep(0)
    assert order == [(1, b"0"), (2, b"1"), (1, b"2")]


class _Broken:
    """A transport that the kernel took away a moment ago."""

    closed = False

    def writelines(self, data: list[bytes]) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async def drain(self) -> None:
        raise RuntimeError("closed")

    def close(self) -> None:
        self.closed = True

    async def wait_closed(self) -> None:
        pass


async def test_broken_connection_with_pending_data_can_be_closed() -> None:
    client = QuickClient()
    transport = _Broken()
    client._transport, client._current_server = transport, object()
    client._status, client._flush_queue = Client.CONNECTED, asyncio.Queue()
    client._pending, client._pending_data_size = [b"PUB a 1\r\nx\r\n"], 14
    await client.close()
    assert client.is_closed
    assert transport.closed


async def test_an_attempt_that_came_to_nothing_leaves_no_socket_open() -> None:
    left: asyncio.Queue[bytes] = asyncio.Queue()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.put_nowait(await reader.read())
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    client = QuickClient()
    client.options["connect_timeout"] = 20
    address = Srv(urlparse(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        await client._connect_to_server(address)
        await client._connect_to_server(address)
        async with asyncio.timeout(60):
            assert await left.get() == b""
        assert left.empty()
        client._transport.close()
        async with asyncio.timeout(60):
            assert await left.get() == b""
    finally:
        server.close()


async def test_an_address_that_answers_nothing_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    with socket.socket() as gone, socket.socket() as waits:
        gone.bind(("127.0.0.1", 0))
        gone.listen(0)
        waits.connect(gone.getsockname())
        # Nobody accepts: whoever comes now gets no answer.
        places = [gone.getsockname(), server.sockets[0].getsockname()]

        async def resolve(*_: object, **__: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place) for place in places]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        client = QuickClient()
        client.options["connect_timeout"] = 20
        try:
            await client._connect_to_server(Srv(urlparse("nats://nats.example:4222")))
            assert client._transport._io_writer.get_extra_info("peername") == places[1]
            client._transport.close()
            await left.wait()
        finally:
            server.close()


async def test_a_server_that_hangs_up_over_tls_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    authority.load()
    contexts = [ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)]
    contexts[0].load_cert_chain(*authority.server(("nats.example",)))
    contexts[1].load_verify_locations(authority.ca_file)

    async def upgrading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(contexts[0])
        writer.write(b"PING\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(upgrading, "127.0.0.1", 0)
    address = urlparse(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    client = QuickClient()
    client.options["connect_timeout"] = 20
    try:
        await client._connect_to_server(Srv(address))
        await client._transport.connect_tls("nats.example", contexts[1], 1024, 20)
        assert await client._transport.readline() == b"PING\r\n"
        assert await client._transport.read(10) == b""
        assert caplog.messages == []
    finally:
        client._transport.close()
        server.close()


@pytest.mark.parametrize(
    "head",
    [
        b"NATS/1.0\r\nA: 1\r\nAB: 2\r\nA: 3\r\n\r\n",
        b"NATS/1.0\r\nAB:  spaces  \r\n\r\n",
        b"NATS/1.0\r\nX: A: 1\r\nA:\r\n\r\n",
        b"NATS/1.0 404 No Messages\r\nA: \xc3\xa4",
        b"NATS/1.0 503\r\n\r\n",
    ],
)
def test_one_header_is_found_as_it_is_among_all(head: bytes) -> None:
    everything = dict(Headers(head))
    for name in ("A", "AB", "X", "B", "Status", "Description"):
        assert Headers(head).get(name, "none") == everything.get(name, "none")


async def test_head_in_bytes_is_sent_as_the_library_does() -> None:
    client, library = connected(QuickClient()), connected(Client())
    await client.publish_with_head("a.b", b"NATS/1.0\r\nA: 1\r\nB-C: two\r\n\r\n", b"body")
    await library.publish("a.b", b"body", headers={"A": "1", "B-C": "two"})
    assert b"".join(client._pending) == b"".join(library._pending)
    assert client._pending_data_size == library._pending_data_size
    assert client.stats == library.stats


async def test_head_in_bytes_is_refused_as_the_library_does() -> None:
    client = connected(QuickClient())
    client._max_payload = 3
    with pytest.raises(MaxPayloadError):
        await client.publish_with_head("a.b", b"NATS/1.0\r\n\r\n", b"body")
    client._status = Client.CLOSED
    with pytest.raises(ConnectionClosedError):
        await client.publish_with_head("a.b", b"NATS/1.0\r\n\r\n", b"")
    assert not client._pending


def connected(client: Any) -> Any:
    """A client as it is while it is connected, without a connection."""
    client._status = Client.CONNECTED
    client._max_payload = 1 << 20
    client._flush_queue = asyncio.Queue()
    client._flush_queue.put_nowait(None)
    return client

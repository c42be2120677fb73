"""Lists of many objects: the same text as short ones, made in slices, with little memory, as fast as a client reads."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from services.apiserver.core.request_context import Identity
from services.apiserver.http import handler
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.reads import list_requests, list_stream
from services.apiserver.server import ApiServer
from services.apiserver.settings import Limits, Settings
from services.apiserver.store.memory_store import MemoryStore
from services.apiserver.store.store_port import Entry, Key, encode_value
from tests.support.waiting import eventually

MANY = 20_000
SLICES_BESIDE = 20
PATH = "/api/v1/namespaces/many/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ADMIN = {"Authorization": "Bearer admin"}


def fill(server: ApiServer, many: int, size: int = 1000) -> None:
    """Put objects straight into the store, as those of a stream that is loaded."""
    store: Any = server.store
    for number in range(many):
        key = Key("", "configmaps", "many", f"c-{number:06}")
        meta = {"name": key.name, "namespace": "many", "uid": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
        data = {"value": f"{number:06}" * (size // 6)}
        obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}
        store.apply_put(Entry(key, encode_value(obj), store.revision + 1))


@pytest.fixture
async def full(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    """A server; its parameter are the seconds for which a client may read nothing."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    limits = Limits(unread_seconds=getattr(request, "param", 60.0))
    settings = Settings(data_dir=tmp_path, tokens=tokens, tls=False, limits=limits)
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


async def text_of(server: ApiServer, path: str = PATH, **headers: str) -> bytes:
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(server.url + path, headers={**ADMIN, **headers}) as answer,
    ):
        assert answer.status == 200
        assert ("Content-Length" not in answer.headers) == answer.headers.get("Vary", "").startswith("Accept")
        body = await answer.read()
        return gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


def without_age(document: Any) -> Any:
    for row in document.get("rows") or ():
        row["cells"].pop()
    return document


@pytest.mark.parametrize("accept", ["application/json", TABLE, METADATA, "application/yaml"])
@pytest.mark.parametrize("query", ["", "?pretty=1", "?fieldSelector=metadata.name=none"])
async def test_a_long_list_reads_as_a_short_one(
    full: ApiServer, accept: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(full, 300)
    read = yaml.safe_load if "yaml" in accept else msgspec.json.decode
    short = await text_of(full, PATH + query, Accept=accept)
    monkeypatch.setattr(list_stream, "SHORT", -1)
    monkeypatch.setattr(list_requests, "SLICE_BYTES", 10_000)
    long = await text_of(full, PATH + query, Accept=accept)
    assert without_age(read(long)) == without_age(read(short))
    if accept != TABLE:
        assert long == short


async def test_a_long_list_is_compressed_for_who_asks(full: ApiServer) -> None:
    fill(full, 2000)
    plain = await text_of(full, **{"Accept-Encoding": "identity"})
    assert await text_of(full, **{"Accept-Encoding": "deflate, gzip"}) == plain
    found = msgspec.json.decode(plain)
    assert [item["metadata"]["name"] for item in found["items"]] == [f"c-{number:06}" for number in range(2000)]


async def test_lists_at_once_cost_no_memory_of_their_own(full: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(full, MANY)

    async def drained(session: aiohttp.ClientSession) -> int:
        received = 0
        async with session.get(full.url + PATH, headers=ADMIN) as answer:
            async for part in answer.content.iter_chunked(1 << 16):
                received += len(part)
        return received

    held: list[int] = []
    write = list_stream.ListResponse.write

    async def writing(self: list_stream.ListResponse, data: Any) -> None:
        transport = self._req.transport if self._req is not None else None
        assert transport is not None
        held.append(transport.get_write_buffer_size() + len(data))
        await write(self, data)

    monkeypatch.setattr(list_stream.ListResponse, "write", writing)
    async with aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": "identity"}) as session:
        sizes = await asyncio.gather(*(drained(session) for _ in range(4)))
    assert min(sizes) > MANY * 1000
    # Of more than 20 MB each: what its client has not taken yet, and the slice that comes next.
    assert max(held) < 3 * list_requests.SLICE_BYTES


async def test_others_are_answered_while_lists_are_sent(full: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(full, MANY)
    done = asyncio.Event()
    made, between = 0, [0]
    slices = list_stream.slices

    def counted(entries: list[Entry]) -> Iterator[list[Entry]]:
        nonlocal made
        for part in slices(entries):
            made += 1
            yield part

    monkeypatch.setattr(list_stream, "slices", counted)

    async def neighbour(session: aiohttp.ClientSession) -> None:
        while not done.is_set():
            before = made
            async with session.get(f"{full.url}/api/v1/namespaces/default", headers=ADMIN) as answer:
                assert answer.status == 200
            between.append(made - before)

    async with aiohttp.ClientSession(auto_decompress=False) as session:
        asking = asyncio.ensure_future(neighbour(session))
        await asyncio.gather(*(text_of(full, **{"Accept-Encoding": "identity"}) for _ in range(4)))
        done.set()
        await asking
    # However large the lists are, not more of their slices are made before the answer to another.
    assert max(between) < SLICES_BESIDE < made / 4


@pytest.mark.parametrize("full", [0.3], indirect=True)
async def test_a_client_that_takes_nothing_is_let_go(full: ApiServer) -> None:
    fill(full, MANY)
    tasks = full._face.tasks
    reader, writer = await asyncio.open_connection("127.0.0.1", full.port, limit=1)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n".encode())
    await eventually(lambda: tasks, "the list is being sent")
    await eventually(lambda: not tasks, "the connection is closed")
    # What was under way comes; the end of the list does not.
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(MANY * 1000)
    writer.close()


async def test_a_user_is_not_sent_any_number_of_lists(full: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "_MOST_LISTS", 2)
    fill(full, 5000)
    asked = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n".encode()
    streams = [await asyncio.open_connection("127.0.0.1", full.port, limit=1) for _ in range(3)]
    heads = []
    for reader, writer in streams:
        writer.write(asked)
        heads.append(await reader.readexactly(12))
    assert heads == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 429"]
    for _, writer in streams:
        writer.transport.abort()
    await eventually(lambda: not full._face._lists, "both lists are given up")
    assert len(await text_of(full, **{"Accept-Encoding": "identity"})) > 5000 * 1000


async def test_a_list_ends_when_the_server_stops(full: ApiServer) -> None:
    fill(full, MANY)
    _, writer = await asyncio.open_connection("127.0.0.1", full.port, limit=1)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n".encode())
    await eventually(lambda: full._face.tasks, "the list is being sent")
    await full.stop()
    assert not full._face.tasks
    writer.close()

"""Requests over connections that are kept: used again, never for two at once, and not sent twice where that matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from sys import getrefcount

import pytest

from services._kit.errors import FenceLost
from services._kit.http_pool import HttpPool
from services._kit.kube import ApiError, KubeClient, Unreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers what a test says; `connections` counts those that were opened, `seen` has the first lines."""

    def __init__(self) -> None:
        self.connections = 0
        self.seen: list[str] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.answer = OK
        self.hang_up = False
        """Close the connection instead of answering."""
        self.let = asyncio.Event()
        self.let.set()
        self.arrived = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
                )
                self.bodies.append(await reader.readexactly(length))
                self.heads.append(head)
                self.seen.append(head.split(b"\r\n")[0].decode())
                self.arrived.set()
                await self.let.wait()
                if self.hang_up:
                    return
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving(connections: int = 4, path: str = "") -> AsyncIterator[tuple[Server, HttpPool]]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = HttpPool(f"http://127.0.0.1:{port}{path}", tls=None, headers={"User-Agent": "t"}, connections=connections)
    try:
        yield made, pool
    finally:
        await pool.close()
        made.let.set()
        for writer in made.writers:
            writer.close()
        listening.close()
        await listening.wait_closed()


async def test_one_connection_carries_one_request_after_the_other() -> None:
    async with serving() as (server, pool):
        for _ in range(3):
            answer = await pool.request("POST", "/x", headers={"Accept": "a/b"}, body=b"text")
            assert answer.body == b"{}"
        assert server.connections == 1
        assert server.bodies == [b"text"] * 3
        assert b"User-Agent: t\r\nAccept: a/b\r\nContent-Length: 4" in server.heads[0]


async def test_a_connection_that_waits_keeps_nothing_of_the_last_answer() -> None:
    async with serving() as (server, pool):
        server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
        body = (await pool.request("GET", "/large", headers={})).body
        assert len(body) == 100_000
        assert getrefcount(body) == getrefcount(object()) + 1


async def test_so_many_at_once_and_no_more() -> None:
    async with serving(connections=2) as (server, pool):
        server.let.clear()
        asked = [asyncio.create_task(pool.request("GET", f"/{number}", headers={})) for number in range(5)]
        while len(server.seen) < 2:
            server.arrived.clear()
            await server.arrived.wait()
        assert len(server.seen) == 2
        server.let.set()
        assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 5
        assert server.connections == 2


async def test_paths_and_parameters_are_written_as_urls_want_them() -> None:
    async with serving(path="/k8s/clusters/c-1") as (server, pool):
        await pool.request("GET", "/api/v1/x y/system:node", params={"labelSelector": "a=b,c in (d)"}, headers={})
        assert server.seen == [
            "GET /k8s/clusters/c-1/api/v1/x%20y/system:node?labelSelector=a%3Db%2Cc+in+%28d%29 HTTP/1.1"
        ]
        await pool.request("PUT", "/scale?fieldManager=me", params={"dryRun": "All"}, headers={})
        assert server.seen[1] == "PUT /k8s/clusters/c-1/scale?fieldManager=me&dryRun=All HTTP/1.1"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_a_connection_that_was_closed_did_not_answer_is_asked_again(method: str) -> None:
    async with serving() as (server, pool):
        await pool.request("GET", "/first", headers={})
        server.hang_up = True
        server.arrived.clear()
        server.let.clear()
        asking = asyncio.create_task(pool.request(method, "/second", headers={}))
        await server.arrived.wait()
        server.arrived.clear()
        server.let.set()
        await server.arrived.wait()
        # The second attempt goes over a new connection; a server that hangs up again is told of.
        with pytest.raises(OSError, match="closed the connection"):
            await asking
        assert server.connections == 2


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_have_been_done_is_not_sent_again(method: str) -> None:
    async with serving() as (server, pool):
        await pool.request("GET", "/first", headers={})
        server.hang_up = True
        with pytest.raises(OSError, match="closed the connection"):
            await pool.request(method, "/second", headers={}, body=b"{}")
        assert server.seen[1:] == [f"{method} /second HTTP/1.1"]


async def test_the_connection_of_a_request_that_was_given_up_is_not_used_again() -> None:
    async with serving(connections=1) as (server, pool):
        server.let.clear()
        asking = asyncio.create_task(pool.request("GET", "/slow", headers={}))
        await server.arrived.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        server.let.set()
        assert (await pool.request("GET", "/next", headers={})).status == 200
        assert server.connections == 2


async def test_who_gives_up_waiting_for_a_connection_takes_no_turn() -> None:
    async with serving(connections=1) as (server, pool):
        server.let.clear()
        first = asyncio.create_task(pool.request("GET", "/1", headers={}))
        await server.arrived.wait()
        second = asyncio.create_task(pool.request("GET", "/2", headers={}))
        third = asyncio.create_task(pool.request("GET", "/3", headers={}))
        await asyncio.sleep(0)
        second.cancel()
        server.let.set()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert [line.split()[1] for line in server.seen] == ["/1", "/3"]


async def test_a_header_never_becomes_two() -> None:
    async with serving() as (server, pool):
        with pytest.raises(ValueError, match="two lines"):
            await pool.request("GET", "/", headers={"Authorization": "x\r\nX-Other: y"})
        assert server.seen == []


class Shut:
    """A guard of a leader that was replaced."""

    holds = False

    async def wait(self) -> None:
        raise FenceLost(0, "another instance leads")


async def test_nothing_is_written_that_may_not_be_sent() -> None:
    async with serving() as (server, pool):
        await pool.request("GET", "/", headers={})
        with pytest.raises(FenceLost):
            await pool.request("PUT", "/x", headers={}, guard=Shut())
        assert len(server.seen) == 1


async def test_an_answer_that_is_elsewhere_is_a_refusal_that_says_so() -> None:
    async with serving() as (server, pool):
        server.answer = b"HTTP/1.1 301 Moved\r\nLocation: https://other/\r\nContent-Length: 0\r\n\r\n"
        client = KubeClient(_url(pool), ssl_context=None, headers={})
        with pytest.raises(ApiError, match="https://other/; name that address in its kubeconfig"):
            await client.get("/version")
        await client.close()


async def test_what_is_no_http_server_is_unreachable() -> None:
    async with serving() as (server, pool):
        server.answer = b"220 smtp ready\r\n\r\n"
        client = KubeClient(_url(pool), ssl_context=None, headers={})
        with pytest.raises(Unreachable, match="it begins with '220 smtp ready'"):
            await client.get("/version")
        await client.close()


def _url(pool: HttpPool) -> str:
    return f"http://{pool._host}:{pool._port}"

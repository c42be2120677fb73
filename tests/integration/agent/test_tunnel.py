"""Requests to a pull member through a real server: plain, large, watched, uploaded, switched, refused, broken off."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from services._kit.proxying.flow_credit import WINDOW
from services._kit.proxying.member_exchange import CHUNK, MemberRefused, MemberUnreachable
from services.agent.tunnel import request_server
from tests.integration.agent.hub_servers import CONFIGURED_AND_SIGNED
from tests.integration.agent.streaming_member import EXEC, LIST, MIB, WATCH
from tests.integration.agent.tunnel_ends import Ends, asked, ends, everything
from tests.support.waiting import eventually

__all__ = ["ends"]


@CONFIGURED_AND_SIGNED
async def test_a_request_arrives_in_the_name_of_its_caller(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.size = 1000
    found = await transport.open(asked(LIST))
    assert found.status == 200
    assert await everything(found) == b"x" * 1000
    await found.close()
    (request,) = ends.member.asked
    assert (request.method, request.path) == ("GET", LIST)
    assert request.values("Impersonate-User") == ["anna"]
    assert request.values("Impersonate-Group") == ["dev", "ops"]
    assert request.values("Accept") == ["application/json"]
    await eventually(lambda: ends.agents[0].records, "the record of the agent")
    (told,) = ends.agents[0].records
    assert (told.side, told.user, told.status, told.received, told.problem) == ("agent", "anna", 200, 1000, "")


async def test_a_slow_reader_holds_up_a_large_list(ends: Ends) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(LIST))
    read = len(await found.read())
    stream = found.stream  # type: ignore[attr-defined]  # of this transport
    await eventually(lambda: stream.received == WINDOW, "a full window")
    # Beyond the window there is what the sockets and the client of the member hold.
    assert ends.member.sent < 20 * MIB
    while data := await found.read():
        assert len(data) <= CHUNK
        assert stream.received - read <= WINDOW
        assert ends.member.sent - read < 20 * MIB
        read += len(data)
    assert read == 50 * MIB
    await found.close()


async def test_a_watch_hears_lines_as_they_come(ends: Ends) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(WATCH))
    await eventually(lambda: ends.member.watches, "the watch")
    for line in (b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n'):
        await ends.member.say(line)
        assert await found.read() == line
    await found.close()
    await eventually(lambda: not ends.member.watches, "the end of the watch in the member")
    assert transport.under_way == 0


async def test_an_upload_arrives_whole(ends: Ends) -> None:
    transport = await ends.answering()
    digest = hashlib.sha256()

    async def body() -> AsyncIterator[bytes]:
        for number in range(200):
            data = bytes([number]) * 100_000
            digest.update(data)
            yield data

    found = await transport.open(asked(LIST, "POST"), body())
    assert found.status == 201
    assert (await everything(found)).decode() == f"20000000 {digest.hexdigest()}"
    await found.close()


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
async def test_a_switched_connection_carries_both_ways(ends: Ends, protocol: str) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(EXEC, "GET", upgrade=protocol))
    assert found.status == 101
    assert await found.read() == b"hi"
    size = 20 * MIB
    given, taken = hashlib.sha256(), hashlib.sha256()

    async def send() -> None:
        for number in range(size // CHUNK):
            data = bytes([number % 256]) * CHUNK
            given.update(data)
            await found.write(data)

    async def take() -> None:
        left = size
        while left:
            data = await found.read()
            assert data
            left -= len(data)
            taken.update(data)

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        group.create_task(take())
    assert given.digest() == taken.digest()
    await found.close()
    await eventually(lambda: not ends.agents[0].server.under_way, "the end at the agent")


async def test_a_member_permits_what_its_list_says(ends: Ends) -> None:
    transport = await ends.transport()
    ends.agent(permitted="read")
    ends.member.size = 10
    found = await transport.open(asked(LIST))
    await found.close()
    for method, path in (("DELETE", f"{LIST}/a"), ("GET", "/api/v1/secrets"), ("POST", LIST)):
        with pytest.raises(MemberRefused, match="does not permit"):
            await transport.open(asked(path, method))
    with pytest.raises(MemberRefused, match="does not permit create pods/exec"):
        await transport.open(asked(EXEC, upgrade="websocket"))
    assert len(ends.member.asked) == 1
    # What was answered is on record once it has ended, which may be after the refusals.
    records = ends.agents[0].records
    await eventually(lambda: len(records) == 5, "all records")
    assert sorted(record.problem[:11] for record in records) == ["", *["cluster m1:"] * 4]


async def test_a_member_without_an_answering_agent_is_named(ends: Ends) -> None:
    transport = await ends.answering()
    with pytest.raises(MemberUnreachable, match="agent of m2 does not answer requests"):
        await transport.open(asked(LIST, cluster="m2"))


async def test_an_agent_that_stops_ends_its_requests(ends: Ends) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(WATCH))
    reading = asyncio.create_task(found.read())
    await ends.agents[0].stop()
    with pytest.raises(MemberUnreachable):
        await reading
    await found.close()


async def test_a_read_is_repeated_where_an_agent_begins_again(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.behaviour, ends.member.size = "hang", 10
    reading = asyncio.create_task(transport.open(asked(LIST)))
    writing = asyncio.create_task(transport.open(asked(f"{LIST}/a", "DELETE")))
    await eventually(lambda: len(ends.member.asked) == 2, "both requests in the member")
    ends.member.behaviour = ""
    await ends.agents[0].link._connection.nc.force_reconnect()  # type: ignore[union-attr]  # the test breaks what it knows
    found = await reading
    assert await everything(found) == b"x" * 10
    await found.close()
    with pytest.raises(MemberUnreachable, match="began"):
        await writing
    assert [request.method for request in ends.member.asked].count("DELETE") == 1


async def test_an_agent_that_stops_is_not_asked_any_more(ends: Ends) -> None:
    transport = await ends.answering()
    await ends.agents[0].stop()
    await eventually(lambda: not transport.answers("m1"), "the goodbye of m1")


async def test_an_agent_that_begins_again_ends_old_requests(ends: Ends) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(WATCH))
    reading = asyncio.create_task(found.read())
    # Its connection breaks without a word, as when it is killed.
    agent = ends.agents[0]
    await agent.link._connection.nc.force_reconnect()  # type: ignore[union-attr]  # the test breaks what it knows
    with pytest.raises(MemberUnreachable):
        await reading
    await found.close()
    await eventually(lambda: not ends.member.watches, "the end of the watch in the member")
    again = await transport.open(asked(WATCH))
    assert again.status == 200
    await again.close()


async def test_a_hub_that_is_gone_ends_what_it_asked(ends: Ends) -> None:
    transport = await ends.answering()
    found = await transport.open(asked(WATCH))
    reading = asyncio.create_task(found.read())
    await eventually(lambda: ends.member.watches, "the watch")
    ends.server.kill9()
    with pytest.raises(MemberUnreachable, match="connection"):
        await reading
    await eventually(lambda: not ends.member.watches, "the end of the watch in the member")
    with pytest.raises(MemberUnreachable, match="the log's server"):
        await transport.open(asked(WATCH))
    ends.server.start()
    await transport.connection.wait_connected()
    again = await transport.open(asked(WATCH))
    assert again.status == 200
    await again.close()
    await found.close()


async def test_a_caller_that_leaves_ends_the_request(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.behaviour = "hang"
    opening = asyncio.create_task(transport.open(asked(LIST)))
    await eventually(lambda: ends.member.open, "the request in the member")
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await eventually(lambda: not ends.member.open, "the end of the request in the member")
    assert transport.under_way == 0


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("garbage", "no HTTP"), ("redirect", "redirects"), ("headers", "no HTTP|not carried")],
)
async def test_a_member_that_misbehaves_is_told_of(ends: Ends, behaviour: str, words: str) -> None:
    transport = await ends.answering()
    ends.member.behaviour = behaviour
    with pytest.raises(MemberUnreachable, match=words):
        await transport.open(asked(LIST))
    ends.member.behaviour, ends.member.size = "", 10
    found = await transport.open(asked(LIST))
    assert await everything(found) == b"x" * 10
    await found.close()


async def test_an_answer_that_breaks_off_is_not_whole(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.behaviour = "torn"
    found = await transport.open(asked(LIST))
    assert await found.read() == b"half"
    with pytest.raises(MemberUnreachable):
        await found.read()
    await found.close()


async def test_an_answer_that_stands_still_is_given_up(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_server, "STALLED_SECONDS", 0.2)
    transport = await ends.answering()
    found = await transport.open(asked(LIST))
    # Nothing is read of it.
    await eventually(lambda: not ends.agents[0].server.under_way, "the end at the agent")
    with pytest.raises(MemberUnreachable, match="stood still"):
        await everything(found)
    await found.close()
    watch = await transport.open(asked(WATCH))
    await eventually(lambda: ends.member.watches, "the watch")
    await ends.member.say(b"x" * 100)
    assert len(await watch.read()) == 100
    await watch.close()


async def test_an_endless_answer_fills_no_memory(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.behaviour = "endless"
    found = await transport.open(asked(LIST))
    stream = found.stream  # type: ignore[attr-defined]  # of this transport
    await eventually(lambda: stream.received == WINDOW, "a full window")
    ends.member.behaviour, ends.member.size = "", 10
    other = await transport.open(asked(LIST))
    assert await everything(other) == b"x" * 10
    await other.close()
    assert stream.received == WINDOW
    await found.close()
    await eventually(lambda: ends.agents[0].server.under_way == 0, "the end at the agent")

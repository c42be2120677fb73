"""Hostile agents at the tunnel: what they send harms one request at most, and they see nothing of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from nats.aio.msg import Msg

from services._kit.log.connection import Connection
from services._kit.proxying.flow_credit import WINDOW
from services._kit.proxying.member_exchange import CHUNK, MemberRefused, MemberUnreachable
from services._kit.proxying.pull_transport import MOST_SESSIONS, PullTransport
from services._kit.proxying.tunnel_frames import (
    HERE,
    REFUSED,
    AnyFrame,
    Cancel,
    Credit,
    Data,
    End,
    Greeting,
    Head,
    Open,
    packed,
    unpacked,
)
from services._rules.identity.accounts import tunnel_subject
from tests.integration.agent.hub_servers import CONFIGURED_AND_SIGNED
from tests.integration.agent.streaming_member import LIST
from tests.integration.agent.tunnel_ends import Ends, asked, ends, everything
from tests.support.waiting import eventually

__all__ = ["ends"]


class Impostor:
    """An agent by hand: it greets as a cluster, keeps what it is sent, and answers what a test says."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self.connection = connection
        self.cluster = cluster
        self.heard: list[AnyFrame] = []

    async def greet(self, session: str = "s", instance: str = "evil", data: bytes | None = None) -> None:
        """Say that this one answers."""
        inbox = self.connection.inbox()
        await self.connection.listen(inbox, self._hear)
        said = packed(Greeting(instance=instance, session=session)) if data is None else data
        await self.connection.publish(tunnel_subject(self.cluster, HERE), said, reply=inbox)

    def _hear(self, message: Msg) -> None:
        self.heard.append(unpacked(message.data))

    async def opened(self) -> Open:
        """The last request that came."""
        await eventually(lambda: any(isinstance(frame, Open) for frame in self.heard), "a request")
        return [frame for frame in self.heard if isinstance(frame, Open)][-1]

    async def say(self, name: str, *frames: AnyFrame | bytes) -> None:
        """Send frames of a stream."""
        subject = tunnel_subject(self.cluster, name)
        for frame in frames:
            await self.connection.publish(subject, frame if isinstance(frame, bytes) else packed(frame))


async def hostile(ends: Ends) -> tuple[Impostor, PullTransport]:
    """An impostor as m1, and the hub that believes it."""
    transport = await ends.transport()
    made = Impostor(await ends.connect("m1"), "m1")
    await made.greet()
    await eventually(lambda: transport.answers("m1"), "the greeting")
    return made, transport


async def arrived(connection: Connection) -> None:
    """What was published has reached the server: a PING overtakes what waits to be written, the next one does not."""
    for _ in range(2):
        await connection.nc.flush()


def head(name: str) -> Head:
    """A head as it should be."""
    return Head(name, 0, 200, ())


BROKEN: list[tuple[str, Callable[[str], list[Any]]]] = [
    ("garbage", lambda name: [b"\x00garbage"]),
    ("another id", lambda name: [Head("f" * 32, 0, 200, ())]),
    ("a request", lambda name: [Open(name, 0, "GET", "/", (), "x", ())]),
    ("a bad status", lambda name: [Head(name, 0, 101, ())]),
    ("a lost frame", lambda name: [Head(name, 1, 200, ())]),
    ("data first", lambda name: [Data(name, 0, b"x")]),
]


@pytest.mark.parametrize(("what", "frames"), BROKEN, ids=[what for what, _ in BROKEN])
async def test_an_answer_that_breaks_the_rules_ends(ends: Ends, what: str, frames: Callable[[str], list[Any]]) -> None:
    impostor, transport = await hostile(ends)
    opening = asyncio.create_task(transport.open(asked(LIST)))
    await impostor.say((await impostor.opened()).id, *frames((await impostor.opened()).id))
    with pytest.raises(MemberUnreachable, match="broke the rules"):
        await opening
    await eventually(lambda: any(isinstance(frame, Cancel) for frame in impostor.heard), "the end at the agent")
    assert transport.under_way == 0


LATE: list[tuple[str, Callable[[str], list[Any]]]] = [
    ("a repeated frame", lambda name: [Data(name, 1, b"x"), Data(name, 1, b"x")]),
    ("a second head", lambda name: [Head(name, 1, 200, ())]),
    ("data behind the end", lambda name: [End(name, 1), Data(name, 2, b"x")]),
    ("credit for nothing", lambda name: [Credit(name, 1, 1)]),
    ("endless data", lambda name: [Data(name, 1 + n, b"x" * CHUNK) for n in range(WINDOW // CHUNK + 1)]),
]


@pytest.mark.parametrize(("what", "frames"), LATE, ids=[what for what, _ in LATE])
async def test_frames_that_break_the_rules_end(ends: Ends, what: str, frames: Callable[[str], list[Any]]) -> None:
    impostor, transport = await hostile(ends)
    opening = asyncio.create_task(transport.open(asked(LIST)))
    name = (await impostor.opened()).id
    await impostor.say(name, head(name))
    found = await opening
    await impostor.say(name, *frames(name))
    stream = found.stream  # type: ignore[attr-defined]  # of this transport
    await eventually(lambda: stream.failure, "the failure")
    assert stream.received <= WINDOW
    with pytest.raises(MemberUnreachable, match="broke the rules"):
        await everything(found)
    await found.close()


async def test_a_flood_of_data_is_dropped_by_the_server(ends: Ends) -> None:
    impostor, transport = await hostile(ends)
    opening = asyncio.create_task(transport.open(asked(LIST)))
    name = (await impostor.opened()).id
    await impostor.say(name, head(name))
    found = await opening
    for number in range(1, 200):
        await impostor.say(name, Data(name, number, b"x" * CHUNK))
    stream = found.stream  # type: ignore[attr-defined]  # of this transport
    await eventually(lambda: stream.failure, "the failure")
    await found.close()
    await arrived(impostor.connection)
    assert await transport.connection.flushed(60.0)
    before = transport.connection.nc.stats["in_msgs"]
    for number in range(200):
        await impostor.say(name, Data(name, number, b"x" * CHUNK))
    await arrived(impostor.connection)
    assert await transport.connection.flushed(60.0)
    # The subject of a stream that is over has no listener: nothing arrives but the own message of the flush.
    assert transport.connection.nc.stats["in_msgs"] <= before + 1


async def test_words_of_an_agent_are_bounded(ends: Ends) -> None:
    impostor, transport = await hostile(ends)
    opening = asyncio.create_task(transport.open(asked(LIST)))
    name = (await impostor.opened()).id
    await impostor.say(name, Cancel(name, 0, REFUSED, "no\r\n\x1b[31m" + "x" * 100_000))
    with pytest.raises(MemberRefused) as caught:
        await opening
    assert str(caught.value).startswith("no [31m")
    assert len(str(caught.value)) <= 1000


async def test_greetings_that_cannot_be_are_refused(ends: Ends) -> None:
    transport = await ends.transport()
    impostor = Impostor(await ends.connect("m1"), "m1")
    for data in (b"", b"\xc1", b"x" * 5000, packed(Greeting(instance="", session=""))):
        await impostor.greet(data=data)
    await eventually(lambda: transport.refused == 4, "four refusals")
    assert not transport.answers("m1")


async def test_many_sessions_of_one_cluster_are_few(ends: Ends) -> None:
    transport = await ends.transport()
    impostor = Impostor(await ends.connect("m1"), "m1")
    for number in range(50):
        await impostor.greet(session=f"s{number}", instance=f"i{number}")
    await arrived(impostor.connection)
    assert await transport.connection.flushed(60.0)
    await eventually(lambda: transport.answers("m1"), "a greeting")
    assert len(transport._routes["m1"]) <= MOST_SESSIONS


@CONFIGURED_AND_SIGNED
async def test_an_agent_sees_and_answers_nothing_of_another(ends: Ends) -> None:
    spy = await ends.connect("m2")
    heard: list[Msg] = []
    said: list[str] = []
    for pattern in (">", "*", "tunnel.>", "tunnel.*.*", "tunnel.m1.>", "_INBOX.>", "_R_.>", "$SYS.>"):
        await spy.nc.subscribe_direct(pattern, heard.append)
    transport = await ends.answering()
    watching = await ends.connect()
    routes: list[Msg] = []
    await watching.listen("tunnel.m1.>", routes.append)
    assert await watching.flushed(60.0)
    ends.member.behaviour = "hang"
    opening = asyncio.create_task(transport.open(asked(LIST)))
    await eventually(lambda: ends.member.open, "the request in the member")
    (exchange,) = transport._exchanges()
    name, reply = exchange.stream.id, exchange.route.reply
    forged = [packed(Head(name, 0, 200, ())), packed(Data(name, 1, b"forged")), packed(End(name, 2))]
    greeting = packed(Greeting(instance="m2", session="forged"))
    for subject in (tunnel_subject("m1", name), reply, f"tunnel.m2.{name}", f"_INBOX.{name}"):
        for data in forged:
            await spy.publish(subject, data, reply="_INBOX.x")
        said.append(subject)
    for subject in (tunnel_subject("m1", HERE), f"tunnel.m1.{HERE}.x", "tunnel.m1"):
        await spy.publish(subject, greeting, reply=reply)
    # Frames of its own to what it believes to be the other agent.
    await spy.publish(reply, packed(Open("e" * 32, 0, "DELETE", LIST, (), "root", ("system:masters",))))
    assert await watching.flushed(60.0)
    await arrived(spy)
    assert await watching.flushed(60.0)
    assert not opening.done()
    assert len(transport._routes["m1"]) == 1
    assert all(b"forged" not in message.data for message in routes)
    assert [request.method for request in ends.member.asked] == ["GET"]
    assert not [message for message in heard if message.data]
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


async def test_frames_of_a_mad_hub_harm_no_agent(ends: Ends) -> None:
    transport = await ends.answering()
    agent = ends.agents[0]
    (route,) = transport._routes["m1"].values()
    hub = await ends.connect()
    name = "c" * 32
    wrong: list[bytes] = [
        b"\xc1" * 100,
        packed(Data(name, 0, b"x")),
        packed(Cancel(name, 0, "gone")),
        packed(Open("short", 0, "GET", LIST, (), "anna", ())),
        packed(Open("d" * 32, 0, "GET", "no path", (), "anna", ())),
        packed(Open("e" * 32, 5, "GET", LIST, (), "anna", ())),
        packed(Open("f" * 32, 0, "GET", LIST, (("Authorization", "Bearer x\r\nA: b"),), "anna", ())),
        packed(Open("0" * 32, 0, "GET", LIST, (), "", ("system:masters",))),
    ]
    for data in wrong:
        await hub.publish(route.reply, data)
    assert await hub.flushed(60.0)
    await eventually(lambda: agent.server.turned_away == 5, "five requests turned away")
    ends.member.size = 10
    found = await transport.open(asked(LIST))
    assert await everything(found) == b"x" * 10
    await found.close()
    assert len(ends.member.asked) == 1


async def test_an_identity_in_a_request_is_not_believed(ends: Ends) -> None:
    transport = await ends.answering()
    ends.member.size = 0
    smuggled = (
        ("Impersonate-User", "root"),
        ("impersonate-group", "system:masters"),
        ("Authorization", "Bearer theirs"),
        ("X-Remote-User", "root"),
        ("Accept", "text/plain"),
    )
    found = await transport.open(asked(LIST, headers=smuggled))
    await found.close()
    (request,) = ends.member.asked
    assert request.values("Impersonate-User") == ["anna"]
    assert request.values("Impersonate-Group") == ["dev", "ops"]
    assert not request.values("Authorization")
    assert not request.values("X-Remote-User")

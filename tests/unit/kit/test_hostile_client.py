"""Whatever an endpoint answers, to whatever it is asked: it is data, a refusal, or a BadAnswer that names itself."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import pytest

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.bodies import Buffer, Lines, TooLarge
from services._kit.kube.answers.exchange import bare
from services._kit.kube.answers.listing import each_item
from services._kit.kube.answers.shapes import manifest_of
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable
from services._kit.kube.list_watch import AsBytes
from services._kit.members.member_probe import probe_cluster
from tests.support.deep_size import deep_size
from tests.support.hostile_server import MODES, HostileServer, hostile_server
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
LIMITS = Limits(
    answer_bytes=1 << 20,
    object_bytes=256 << 10,
    first_byte_seconds=0.5,
    silence_seconds=0.3,
    line_seconds=0.5,
    answer_seconds=1.0,
)
PATIENT = Limits(answer_bytes=1 << 20, object_bytes=256 << 10, silence_seconds=60.0, answer_seconds=60.0)
"""Where sizes are to end an answer, however long the machine takes to send that much."""
SOON = 60.0


@pytest.fixture
async def server() -> AsyncIterator[HostileServer]:
    async with hostile_server() as made:
        made.resources = {"v1": [{"name": "pods", "kind": "Pod"}], "apps/v1": [{"name": "deployments", "kind": "D"}]}
        made.objects[PODS] = [{"metadata": {"name": "a", "namespace": "b", "resourceVersion": "1"}}]
        yield made


@pytest.fixture
async def client(server: HostileServer) -> AsyncIterator[KubeClient]:
    made = KubeClient(server.url, ssl_context=None, headers={}, limits=LIMITS)
    yield made
    await made.close()


@pytest.fixture
async def patient(server: HostileServer) -> AsyncIterator[KubeClient]:
    made = KubeClient(server.url, ssl_context=None, headers={}, limits=PATIENT)
    yield made
    await made.close()


class Held:
    """Counts the bytes of all bodies that are held at the same time."""

    def __init__(self) -> None:
        self.most = 0
        self._buffers: WeakSet[Buffer] = WeakSet()

    @property
    def now(self) -> int:
        """Bytes of the bodies that are held."""
        return sum(buffer.size for buffer in self._buffers)

    def add(self, buffer: Buffer) -> None:
        """One of them has more."""
        self._buffers.add(buffer)
        self.most = max(self.most, self.now)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    counted, add = Held(), Buffer.add

    def counting(self: Buffer, piece: bytes) -> None:
        add(self, piece)
        counted.add(self)

    monkeypatch.setattr(Buffer, "add", counting)
    return counted


async def listed(client: KubeClient) -> list[Any]:
    found: list[Any] = []
    reading = AsBytes()
    await each_item(client, PODS, lambda raw: found.append(reading.read(raw, "v1", "Pod")))
    return found


async def watched(client: KubeClient) -> list[Any]:
    found: list[Any] = []
    reading = AsBytes()
    async for events in client.watch(PODS, "1000"):
        found += [reading.read(event.object, "v1", "Pod") for event in events]
        if len(found) > 5000:
            break
    return found


async def usable(client: KubeClient) -> bool:
    """Whether an honest server is understood; the limits of these tests are too short to count on the first answer."""
    try:
        return len(await client.discover()) == 2
    except Unreachable:
        return False


CALLS: dict[str, Callable[[KubeClient], Awaitable[Any]]] = {
    "get": lambda client: client.get(PODS),
    "list": listed,
    "watch": watched,
    "discover": lambda client: client.discover(),
    "create": lambda client: client.create("/api/v1/namespaces/b/pods", {"metadata": {"name": "x"}}),
    "delete": lambda client: client.delete("/api/v1/namespaces/b/pods/a"),
    "look": lambda client: probe_cluster(client, "m1", [], 0.0),
}


LISTS = frozenset(("empty_list", "huge_objects", "invented_objects", "other_object", "silent_watch", "success_untrue"))
"""Modes in which there may be a list, or at least an answer that says of no item."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mode", MODES)
async def test_every_answer_is_usable_or_named(server: HostileServer, client: KubeClient, mode: str, call: str) -> None:
    server.turn(mode)
    none = call == "list" and mode not in LISTS
    async with asyncio.timeout(SOON):
        with pytest.raises((ApiError, Unreachable), match=PODS) if none else suppress(ApiError, Unreachable):
            await CALLS[call](client)
    assert server.sent < 64 << 20
    server.heal()
    await eventually(lambda: usable(client), "an answer to a client of a server in order")


async def test_a_continue_token_that_comes_again_ends_a_list(server: HostileServer, patient: KubeClient) -> None:
    server.turn("repeated_continue")
    with pytest.raises(BadAnswer, match="continue token is repeated"):
        await listed(patient)
    assert len(server.requests) == 2


@pytest.mark.parametrize("mode", ["endless_line", "gzip_bomb", "tiny_items", "endless_headers"])
@pytest.mark.parametrize("call", ["get", "list", "watch"])
async def test_what_never_ends_takes_little_memory(
    server: HostileServer, patient: KubeClient, held: Held, mode: str, call: str
) -> None:
    server.turn(mode)
    with pytest.raises(BadAnswer):
        async with asyncio.timeout(SOON):
            await CALLS[call](patient)
    assert held.most < 2 * PATIENT.answer_bytes
    # The rest is what the sockets hold.
    assert server.sent < 24 << 20


@pytest.mark.parametrize(("call", "mode"), [("watch", "endless_line"), ("get", "endless_body"), ("get", "gzip_bomb")])
async def test_errors_keep_nothing_of_an_answer(
    server: HostileServer, patient: KubeClient, held: Held, call: str, mode: str
) -> None:
    server.turn(mode)
    errors = []
    for _ in range(16):
        with pytest.raises(BadAnswer) as raised:
            async with asyncio.timeout(SOON):
                await CALLS[call](patient)
        # Who keeps an error for longer takes the frames off, which hold the connection.
        errors.append(bare(raised.value))
        del raised
    server.heal()
    await patient.discover()
    # Each of these answers is given up with at least 256 KiB read.
    assert held.most >= 256 << 10
    gc.collect()
    assert held.now < 256 << 10
    assert deep_size(errors) < 256 << 10


@pytest.mark.parametrize("call", ["get", "list", "watch", "create"])
async def test_nobody_is_led_elsewhere(server: HostileServer, patient: KubeClient, call: str) -> None:
    async with hostile_server() as elsewhere:
        server.redirect_to = f"{elsewhere.url}/internal/metadata"
        server.turn("redirect")
        with pytest.raises(BadAnswer, match="elsewhere"):
            await CALLS[call](patient)
        assert elsewhere.requests == []


async def test_large_answers_of_one_neighbour_come_one_at_a_time(
    server: HostileServer, client: KubeClient, held: Held
) -> None:
    server.turn("endless_body")
    async with asyncio.timeout(SOON):
        found = await asyncio.gather(*(client.get(PODS) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(error, Unreachable) for error in found)
    # One has as much as an answer may have, the others what makes them large.
    assert held.most < 8 * LIMITS.answer_bytes


def test_lines_cost_what_they_have_bytes() -> None:
    lines = Lines(1 << 20)
    assert lines.feed(b"a") == []
    assert lines.feed(b"b\n\nc\nd") == [b"ab", b"c"]
    assert lines.size == 1
    assert lines.feed(b"\n") == [b"d"]
    assert lines.feed(b"x" * (1 << 20)) == []
    with pytest.raises(TooLarge):
        lines.feed(b"x")


def test_an_object_of_many_small_values_is_not_decoded() -> None:
    with pytest.raises(BadAnswer, match="values"):
        manifest_of(b'{"a":[' + b"{}," * 200_000 + b"{}]}", 250_000)
    assert manifest_of(b'{"a":"' + b"x" * 300_000 + b'"}', 250_000)

"""Members without an address are read through a transport, within the same limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import structlog
from yarl import URL

from services._kit.base import answer_limits
from services._kit.base.pacing import Backoff
from services._kit.kube import list_watch
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable, resource_path
from services._kit.proxying.carried_client import CarriedClient
from services._kit.proxying.member_exchange import MemberRefused, MemberRequest, MemberUnreachable
from services.search.followers import kind_follower
from services.search.followers.member_follower import MemberFollower
from services.search.index.member_index import Found, MemberIndex
from services.search.registries.member_facts import Gvr
from services.search.registries.wanted_kinds import Wanted
from tests.integration.search.conftest import MEMBER_TOKEN, Ground
from tests.support.waiting import eventually

CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")
GVR = Gvr("", "v1", "configmaps")


class Carried:
    """The answer of a member, or pieces that a test gives instead."""

    def __init__(self, status: int, pieces: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = (("Content-Type", "application/json"),)
        self._pieces = pieces
        self.closed = False

    async def read(self) -> bytes:
        return await anext(self._pieces, b"")

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written")

    async def close(self) -> None:
        self.closed = True


class Transport:
    """Carries requests to an API server, unless told otherwise."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session
        self.failure: Exception | None = None
        self.pieces: list[bytes] | None = None
        self.requests: list[MemberRequest] = []
        self.answers: list[Carried] = []

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Carried:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        if self.pieces is not None:
            answer = Carried(200, _given(self.pieces))
        else:
            headers = {**dict(request.headers), "Authorization": f"Bearer {MEMBER_TOKEN}"}
            url = URL(self.url + request.path, encoded=True)
            response = await self.session.request(request.method, url, headers=headers)
            answer = Carried(response.status, _read(response))
        self.answers.append(answer)
        return answer


async def _given(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _read(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for piece in response.content.iter_any():
            yield piece


@pytest.fixture
async def carried(ground: Ground) -> AsyncIterator[tuple[Transport, KubeClient]]:
    """A transport to a member, and a client of that member itself."""
    member = await ground.join("m1")
    async with aiohttp.ClientSession() as session:
        yield Transport(member.url, session), ground.clients["m1"]


async def test_pull_member_is_followed_through_its_agent(carried: tuple[Transport, KubeClient]) -> None:
    transport, member = carried
    index = MemberIndex()

    async def opener() -> KubeClient:
        return CarriedClient(transport, "m1", "search")

    def names() -> set[str]:
        shelf = index.known(GVR)
        return {found.key for found in shelf.each() if isinstance(found, Found)} if shelf is not None else set()

    await member.create(CONFIG_MAPS, {"metadata": {"name": "one"}})
    follower = MemberFollower("m1", opener, lambda: "", index, 1 << 20)
    follower.want({GVR: Wanted(GVR, "ConfigMap")})
    await eventually(lambda: "default/one" in names(), "the list")
    await member.create(CONFIG_MAPS, {"metadata": {"name": "two"}})
    await eventually(lambda: "default/two" in names(), "the watch")
    await follower.close()
    assert {(request.user, request.method) for request in transport.requests} == {("fleetlog:search", "GET")}
    await eventually(lambda: all(answer.closed for answer in transport.answers), "every answer is closed")


async def test_member_that_forbids_reading_is_asked_seldom(
    carried: tuple[Transport, KubeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, member = carried
    transport.failure = MemberRefused("fleetlog:search may not list configmaps")
    pauses: list[int] = []

    class Soon:
        def pause(self, failures: int) -> float:
            pauses.append(failures)
            return 0.01

    monkeypatch.setattr(kind_follower, "_FORBIDDEN", Soon())
    monkeypatch.setattr(list_watch, "_BACKOFF", Backoff(0.01, 0.01, (1.0, 1.0)))
    index = MemberIndex()

    async def opener() -> KubeClient:
        return CarriedClient(transport, "m1", "search")

    await member.create(CONFIG_MAPS, {"metadata": {"name": "one"}})
    with structlog.testing.capture_logs() as logged:
        follower = MemberFollower("m1", opener, lambda: "", index, 1 << 20)
        follower.want({GVR: Wanted(GVR, "ConfigMap")})
        await eventually(lambda: len(pauses) > 4, "it is asked again")
    assert pauses[:5] == [1, 2, 3, 4, 5], "each pause is longer than the one before"
    assert sum(line["event"] == "watch_interrupted" for line in logged) == 1
    transport.failure = None
    await eventually(lambda: follower.kinds == 1, "the right is noticed")
    await follower.close()


def test_pauses_after_refusals_grow_to_minutes() -> None:
    assert kind_follower._FORBIDDEN.pause(1) <= 5
    assert kind_follower._FORBIDDEN.pause(50) >= 60


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(MemberUnreachable("away"), Unreachable), (MemberRefused("not allowed"), ApiError)],
)
async def test_failures_are_those_of_any_endpoint(
    carried: tuple[Transport, KubeClient], failure: Exception, raised: type[Exception]
) -> None:
    transport, _ = carried
    transport.failure = failure
    with pytest.raises(raised, match=str(failure)):
        await CarriedClient(transport, "m1", "search").get(CONFIG_MAPS)


async def test_refusals_of_the_member_keep_their_code(carried: tuple[Transport, KubeClient]) -> None:
    transport, _ = carried
    with pytest.raises(ApiError) as refused:
        await CarriedClient(transport, "m1", "search").get(f"{CONFIG_MAPS}/none")
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
    with pytest.raises(ApiError):
        _ = [events async for events in CarriedClient(transport, "m1", "search").watch("/apis/none/v1/nothing", "1")]


@pytest.mark.parametrize(
    "pieces",
    [[b"<html>"], [], [b"x" * (1 << 20)] * (2 + (answer_limits.DEFAULTS.answer_bytes >> 20))],
)
async def test_garbage_and_floods_are_bad_answers(carried: tuple[Transport, KubeClient], pieces: list[bytes]) -> None:
    transport, _ = carried
    transport.pieces = pieces
    with pytest.raises(BadAnswer):
        await CarriedClient(transport, "m1", "search").get(CONFIG_MAPS)
    assert transport.answers[-1].closed


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"NONE","object":{}}\n', b"y" * (4 << 20)])
async def test_watches_of_garbage_end(carried: tuple[Transport, KubeClient], line: bytes) -> None:
    transport, _ = carried
    transport.pieces = [line]
    with pytest.raises(BadAnswer):
        await asyncio.wait_for(_drained(CarriedClient(transport, "m1", "search")), 60)


async def _drained(client: CarriedClient) -> list[Any]:
    return [events async for events in client.watch(CONFIG_MAPS, "1")]

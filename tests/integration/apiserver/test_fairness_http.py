"""One tenant does not slow another: seats and queues by user, 429 with the time to wait, watches counted by user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from services.apiserver.admission.chain import Attributes
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Limits, Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.support.waiting import eventually

MAPS = "/api/v1/namespaces/default/configmaps"


class Held:
    """An admission plugin in which writes of one user wait until they are let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.go = asyncio.Event()

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.call.user.name == "greedy":
            self.waiting += 1
            await self.go.wait()

    async def validate(self, attributes: Attributes) -> None:
        pass


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """A server with few seats."""
    names = ("greedy", "modest", "system:serviceaccount:team:a")
    tokens = {name.rpartition(":")[2]: Identity(name, "", ("system:authenticated",)) for name in names}
    tokens["root"] = Identity("root", "", ("system:masters",))
    settings = Settings(
        data_dir=tmp_path,
        tokens=tokens,
        tls=False,
        authorization="AlwaysAllow",
        controllers=False,
        limits=Limits(seats=40, queue=3, watches=2),
    )
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    yield server
    await server.stop()


def session(server: ApiServer, token: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(server.url, headers={"Authorization": f"Bearer {token}"})


async def create(client: aiohttp.ClientSession, name: str) -> tuple[int, str]:
    async with client.post(MAPS, json={"metadata": {"name": name}}) as answer:
        await answer.read()
        return answer.status, answer.headers.get("Retry-After", "")


async def test_a_greedy_user_waits_for_itself_only(small: ApiServer) -> None:
    held = Held()
    small.objects.admission.plugins.append(held)
    level = small._face.limits.seats.levels["global-default"]
    async with session(small, "greedy") as greedy, session(small, "modest") as modest, session(small, "root") as root:
        # Its share, a full queue, and three more.
        tasks = [asyncio.create_task(create(greedy, f"g{number}")) for number in range(level.share + 3)]
        await eventually(lambda: held.waiting == level.share and level.waiting == 3)
        refused = [await create(greedy, f"r{number}") for number in range(3)]
        assert refused == [(429, "1")] * 3
        assert await create(modest, "m") == (201, "")
        assert await create(root, "r") == (201, "")
        held.go.set()
        assert await asyncio.gather(*tasks) == [(201, "")] * len(tasks)
    assert (level.taken, level.waiting) == (0, 0)


async def test_refused_requests_say_when_to_try_again(small: ApiServer) -> None:
    held = Held()
    small.objects.admission.plugins.append(held)
    level = small._face.limits.seats.levels["global-default"]
    async with session(small, "greedy") as greedy:
        tasks = [asyncio.create_task(create(greedy, f"g{number}")) for number in range(level.share + 3)]
        await eventually(lambda: level.waiting == 3)
        async with greedy.get(MAPS) as answer:
            status = await answer.json()
        held.go.set()
        await asyncio.gather(*tasks)
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"] == {"retryAfterSeconds": 1}


async def test_requests_that_clients_gave_up_leave_the_queue(small: ApiServer) -> None:
    held = Held()
    small.objects.admission.plugins.append(held)
    level = small._face.limits.seats.levels["global-default"]
    async with session(small, "greedy") as greedy:
        tasks = [asyncio.create_task(create(greedy, f"g{number}")) for number in range(level.share)]
        await eventually(lambda: held.waiting == level.share)
        late = greedy.get(MAPS, params={"timeout": "50ms"})
        async with late as answer:
            assert answer.status == 504
        await eventually(lambda: level.waiting == 0)
        held.go.set()
        assert await asyncio.gather(*tasks) == [(201, "")] * len(tasks)


async def test_watches_of_one_user_are_counted(small: ApiServer) -> None:
    async with session(small, "greedy") as greedy, session(small, "modest") as modest, session(small, "root") as root:
        watching = {"watch": "true", "timeoutSeconds": "60"}
        first = await greedy.get(MAPS, params=watching)
        second = await greedy.get(MAPS, params=watching)
        async with greedy.get(MAPS, params=watching) as third:
            assert (third.status, third.headers["Retry-After"]) == (429, "1")
        others = [await client.get(MAPS, params=watching) for client in (modest, root, root, root)]
        assert [answer.status for answer in others] == [200] * 4
        first.close()
        await eventually(lambda: small._face.limits.seats._watches.get("greedy") == 1)
        async with greedy.get(MAPS, params={"watch": "true", "timeoutSeconds": "1"}) as again:
            assert again.status == 200
        for answer in (second, *others):
            answer.close()


async def test_unpaged_lists_take_more_seats(small: ApiServer) -> None:
    level = small._face.limits.seats.levels["workload-low"]
    taken: list[int] = []
    take = level.take
    level.take = lambda name, width: taken.append(width) or take(name, width)  # type: ignore[func-returns-value, method-assign]
    async with session(small, "a") as account:
        for number in range(200):
            assert await create(account, f"m{number}") == (201, "")
        for path in (MAPS, f"{MAPS}?limit=5", f"{MAPS}/m1", "/version"):
            async with account.get(path) as answer:
                assert answer.status == 200
    assert taken[-4:] == [2, 1, 1, 1]

"""A kind is followed through whatever its endpoint answers, and is up to date soon after the endpoint is in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from services._kit.base.answer_limits import Limits, of_control_plane
from services._kit.base.settings import Settings
from services._kit.kube import list_watch as kube_watch
from services._kit.kube.answers.share import BURST_SECONDS, Share
from services._kit.kube.client import KubeClient
from services._kit.kube.list_watch import AsBytes, Kept, Reflector
from services._kit.members import node_informer as member_view
from tests.support.hostile_server import HostileServer, hostile_server
from tests.support.waiting import eventually

PATH = "/api/v1/configmaps"
SOON = 60.0
"""Seconds; on a machine with nothing else to do a sixth of it is enough."""
LIMITS = Limits(
    answer_bytes=1 << 20, object_bytes=256 << 10, first_byte_seconds=1.0, silence_seconds=1.0, answer_seconds=2.0,
    list_objects=3000,
)  # fmt: skip


async def until(look: Callable[[], bool], seconds: float) -> None:
    """Return once a condition holds."""
    async with asyncio.timeout(seconds):
        await eventually(look)


class Follower:
    """Keeps what it sees; `poison` names an object that it cannot take."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.lists = 0
        self.poison = ""

    def listed(self, objects: list[Kept]) -> None:
        self.lists += 1
        self.seen = {kept.name: kept.version for kept in objects}

    def changed(self, kind: str, found: Kept) -> None:
        if found.name == self.poison:
            raise RuntimeError("a mistake of ours")
        if kind == "DELETED":
            self.seen.pop(found.name, None)
        else:
            self.seen[found.name] = found.version


class Ground:
    def __init__(self, server: HostileServer, client: KubeClient, follower: Follower) -> None:
        self.server = server
        self.client = client
        self.follower = follower
        self.reflector = Reflector(client, PATH, follower, AsBytes(), api_version="v1", kind="ConfigMap")
        self.task = asyncio.create_task(self.reflector.run())

    def change(self, name: str, kind: str = "MODIFIED") -> str:
        """Change an object; its version."""
        self.server.change(kind, PATH, {"metadata": {"name": name, "namespace": "a"}})
        return str(self.server.revision)

    async def sees(self, name: str, version: str) -> None:
        """Return once the follower has seen a version."""
        await until(lambda: self.follower.seen.get(name) == version, SOON)


@asynccontextmanager
async def following(limits: Limits = LIMITS) -> AsyncIterator[Ground]:
    async with hostile_server() as server:
        server.objects[PATH] = [{"metadata": {"name": "old", "namespace": "a", "resourceVersion": "7"}}]
        client = KubeClient(server.url, ssl_context=None, headers={}, limits=limits)
        ground = Ground(server, client, Follower())
        try:
            await ground.sees("old", "7")
            yield ground
        finally:
            assert not ground.task.done()
            ground.task.cancel()
            await asyncio.gather(ground.task, return_exceptions=True)
            await client.close()


GARBAGE = (
    b"<html>proxy error</html>\n",
    b"null\n",
    b"[]\n",
    b"{}\n",
    b'{"type":"ADDED"}\n',
    b'{"type":"ADDED","object":7}\n',
    b'{"type":"ADDED","object":{}}\n',
    b'{"type":"ADDED","object":{"metadata":null}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"x","labels":[1]}}}\n',
    b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"x"}}}\n',
    b'{"type":"NEWS","object":{"metadata":{"name":"x"}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":7}}}\n',
    b'{"type":"ERROR","object":[]}\n',
    b'{"type":"ERROR","object":{"code":"x"}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"x"},"data":{"a":"\xff"}}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":' + b"[" * 5000 + b"]" * 5000 + b"}}\n",
    b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":1e9999}}\n',
    b"x" * 300_000,
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda text: repr(text[:60]))
async def test_a_line_of_garbage_interrupts_a_watch_and_ends_nothing(garbage: bytes) -> None:
    async with following() as ground:
        await until(lambda: bool(ground.server.inject(garbage)), SOON)
        await until(lambda: ground.reflector.trouble is not None, SOON)
        await ground.sees("new", ground.change("new"))
        ground.change("new", "DELETED")
        await until(lambda: "new" not in ground.follower.seen, SOON)
        assert "x" not in ground.follower.seen


@pytest.mark.parametrize(
    "mode",
    ["html_200", "empty_200", "wrong_types", "wrong_items", "bad_utf8", "huge_number", "deep_nesting", "truncated",
     "bad_chunks", "bad_headers", "huge_headers", "redirect", "refuse_401", "refuse_500", "reset", "gzip_bomb",
     "endless_line", "endless_pages", "repeated_continue", "tiny_items", "hang", "slow_bytes"],
)  # fmt: skip
async def test_soon_after_the_endpoint_is_in_order_so_is_the_follower(mode: str) -> None:
    async with following() as ground:
        ground.server.turn(mode)
        ground.server.cut()
        before = len(ground.server.requests)
        await until(lambda: len(ground.server.requests) > before + 2, SOON)
        version = ground.change("meanwhile")
        assert "old" in ground.follower.seen
        ground.server.heal()
        await ground.sees("meanwhile", version)
        await ground.sees("after", ground.change("after"))
        assert "old" in ground.follower.seen


async def test_silent_watch_is_renewed_from_its_version() -> None:
    # A list that comes too late would be asked for again.
    limits = replace(LIMITS, first_byte_seconds=60.0, answer_seconds=60.0, silence_seconds=3.0)
    async with following(limits) as ground:
        await ground.sees("first", ground.change("first"))
        ground.server.turn("silent_watch")
        version = ground.change("unheard")
        await until(lambda: len(ground.server.asked("watch")) >= 2, SOON)
        assert "unheard" not in ground.follower.seen
        ground.server.heal()
        await ground.sees("unheard", version)
        assert ground.follower.lists == 1
        assert len(ground.server.asked("list")) == 1


async def test_watches_are_renewed_in_time_and_list_nothing_again() -> None:
    limits = Limits(watch_seconds=1.0, silence_seconds=20.0)
    async with following(limits) as ground:
        await until(lambda: len(ground.server.asked("watch")) >= 4, SOON)
        await ground.sees("new", ground.change("new"))
        assert ground.follower.lists == 1
        assert {asked.query["timeoutSeconds"] for asked in ground.server.asked("watch")} == {"1"}


async def test_unreadable_watch_event_is_skipped_alone() -> None:
    async with following() as ground:
        ground.follower.poison = "poison"
        ground.change("poison")
        await ground.sees("next", ground.change("next"))
        assert ground.reflector.skipped == 1


async def test_relists_after_expired_versions_back_off() -> None:
    async with hostile_server() as server:
        server.objects[PATH] = []
        client = KubeClient(server.url, ssl_context=None, headers={}, limits=LIMITS)
        ground = Ground(server, client, Follower())
        gone = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
        try:
            async with asyncio.timeout(2.0):
                while True:
                    server.inject(gone)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            assert len(server.asked("list")) < 20
        finally:
            ground.task.cancel()
            await asyncio.gather(ground.task, return_exceptions=True)
            await client.close()


class Forgetful(dict[str, str]):
    """Keeps nothing."""

    def __setitem__(self, key: str, value: str) -> None:
        return


async def test_a_flood_is_made_to_wait() -> None:
    async with hostile_server() as server:
        client = KubeClient(server.url, ssl_context=None, headers={}, share=Share(0.25))
        server.objects[PATH] = []
        server.turn("invented_objects", "watch")
        follower = Follower()
        follower.seen = Forgetful()
        # What a start may have in advance is used up.
        client.share.spend(BURST_SECONDS)
        task = asyncio.create_task(Reflector(client, PATH, follower, AsBytes()).run())
        try:
            await until(lambda: client.share.waited > 1.0, 60.0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()


@pytest.mark.parametrize("limits", [Limits(), Settings().answer_limits, of_control_plane()])
def test_silence_is_noticed_within_half_a_minute(limits: Limits) -> None:
    assert limits.silence_seconds <= 30.0
    assert limits.first_byte_seconds <= 30.0
    # Of a server in order something is heard before that.
    assert limits.watch_seconds < limits.silence_seconds


def test_pauses_allow_for_a_recovery_within_ten_seconds() -> None:
    assert kube_watch.LONGEST_PAUSE_SECONDS <= 5.0
    assert member_view.LONGEST_PAUSE_SECONDS <= 5.0

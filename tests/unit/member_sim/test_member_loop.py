"""The reconcile loop over a server that refuses, forgets history and answers late."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from schemas.manifest import Manifest
from services.member_sim.loop import Loop
from services.member_sim.member_port import Change, Expired, Refused, WriteOutcome
from services.member_sim.world.world_model import APPS, PODS, REPLICASETS, Config, Key, Write
from tests.support.waiting import eventually


class FakeApi:
    """An object store with a watch; ``refuse`` may raise for a write, ``gate`` holds writes back."""

    def __init__(self) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.history: list[tuple[int, Key, Manifest, bool]] = []
        self.writes: list[Write] = []
        self.refuse: Callable[[Write], None] = lambda _: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads: list[str] = []
        self.floor = 0
        self._news = asyncio.Condition()

    async def read(self, resource: str) -> tuple[list[Manifest], str]:
        self.reads.append(resource)
        return [m for k, m in self.objects.items() if k.resource == resource], str(len(self.history))

    async def watch(self, resource: str, revision: str) -> AsyncIterator[Change]:
        seen = int(revision)
        while True:
            if seen < self.floor:
                seen = self.floor
                raise Expired
            found = [(m, gone) for number, key, m, gone in self.history[seen:] if key.resource == resource]
            seen = len(self.history)
            for manifest, gone in found:
                yield Change(manifest, gone)
            async with self._news:
                await self._news.wait()

    async def perform(self, write: Write) -> WriteOutcome:
        await self.gate.wait()
        self.refuse(write)
        self.writes.append(write)
        old = self.objects.get(write.key)
        if write.op == "create":
            if old is not None:
                raise Refused(409, "AlreadyExists", "taken")
            body = dict(write.body or {})
            body["metadata"] = {**body["metadata"], "uid": f"uid-{len(self.history)}", "generation": 1}
            return WriteOutcome(await self.store(write.key, body), gone=False)
        if old is None:
            raise Refused(404, "NotFound", "absent")
        if write.op == "delete":
            await self.drop(write.key)
            return WriteOutcome(None, gone=True)
        body = dict(write.body or {})
        if write.op == "status":
            annotations = {**(old["metadata"].get("annotations") or {}), **(write.annotations or {})}
            body = {**old, "metadata": {**old["metadata"], "annotations": annotations}, "status": body}
        elif write.op == "bind":
            body = {**old, "spec": {**old["spec"], "nodeName": body["node"]}}
        return WriteOutcome(await self.store(write.key, body), gone=False)

    async def store(self, key: Key, body: Manifest) -> Manifest:
        """Keep an object as somebody's write would."""
        meta = {"uid": f"uid-{key.name}", "generation": 1, **body["metadata"]}
        body = {**body, "metadata": {**meta, "resourceVersion": str(len(self.history) + 1)}}
        self.objects[key] = body
        await self._tell(key, body, gone=False)
        return body

    async def drop(self, key: Key) -> None:
        """Remove an object as somebody's deletion would."""
        await self._tell(key, self.objects.pop(key), gone=True)

    async def forget(self) -> None:
        """Lose all history, as a server does after a while."""
        self.floor = len(self.history) + 1
        self.history.append((0, Key("", "", ""), {}, False))
        async with self._news:
            self._news.notify_all()

    async def _tell(self, key: Key, body: Manifest, *, gone: bool) -> None:
        self.history.append((len(self.history) + 1, key, body, gone))
        async with self._news:
            self._news.notify_all()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds after some write."""
        await eventually(holds)


@asynccontextmanager
async def running(api: FakeApi, **settings: Any) -> AsyncIterator[Loop]:
    """A loop over the fake with one namespace."""
    key = Key("namespaces", "", "default")
    await api.store(key, {"metadata": {"name": "default"}})
    loop = Loop(api, Config(**{"member": "m", "nodes": 1, "ready_delay": 0.01, **settings}), time.time)
    stop = asyncio.Event()
    task = asyncio.create_task(loop.run(stop))
    try:
        await loop.loaded.wait()
        yield loop
    finally:
        stop.set()
        await task


def ready(api: FakeApi) -> int:
    found = api.objects.get(Key(APPS, "default", "web"), {})
    return int((found.get("status") or {}).get("readyReplicas", 0))


async def add(api: FakeApi, spec: Manifest) -> None:
    await api.store(Key(APPS, "default", "web"), {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})


async def test_refused_writes_are_tried_again(deployment: Any) -> None:
    api = FakeApi()
    left = {"create": 3, "status": 3}

    def refuse(write: Write) -> None:
        if left.get(write.op):
            left[write.op] -= 1
            raise Refused(500, "InternalError", "out of luck")

    api.refuse = refuse
    async with running(api):
        await add(api, deployment(2))
        await api.until(lambda: ready(api) == 2)
    assert left == {"create": 0, "status": 0}


async def test_slow_writes_are_not_repeated(deployment: Any) -> None:
    api = FakeApi()
    async with running(api) as loop:
        await api.until(lambda: loop.idle)
        api.gate.clear()
        await add(api, deployment(2))
        await api.until(lambda: not loop.idle)
        for _ in range(5):
            # Noise that makes the Deployment dirty while its own writes are under way.
            found = api.objects[Key(APPS, "default", "web")]
            labels = {**found["metadata"].get("labels", {}), "noise": "x"}
            await api.store(Key(APPS, "default", "web"), {**found, "metadata": {**found["metadata"], "labels": labels}})
        api.gate.set()
        await api.until(lambda: ready(api) == 2)
    created = [w.key.resource for w in api.writes if w.op == "create"]
    assert created.count(REPLICASETS) == 1
    assert created.count(PODS) == 2


async def test_lost_watch_history_leads_to_a_new_list(deployment: Any) -> None:
    api = FakeApi()
    async with running(api) as loop:
        await add(api, deployment(2))
        await api.until(lambda: ready(api) == 2 and loop.idle)
        reads = len(api.reads)
        victim = next(key for key in api.objects if key.resource == PODS)
        del api.objects[victim]
        await api.forget()
        await api.until(lambda: sum(key.resource == PODS for key in api.objects) == 2 and ready(api) == 2)
        assert len(api.reads) > reads
    assert victim not in api.objects


async def test_capacity_is_reserved_for_pods_being_created(deployment: Any) -> None:
    api = FakeApi()
    async with running(api, cpu="2") as loop:
        await api.until(lambda: loop.idle and loop.state.capacity)
        api.gate.clear()
        for name in ("a", "b", "c"):
            key = Key(REPLICASETS, "default", name)
            spec = deployment(1, cpu="1")
            await api.store(key, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        await api.until(lambda: not loop.idle)
        api.gate.set()
        await api.until(lambda: sum(key.resource == PODS for key in api.objects) == 3 and loop.idle)
        placed = [m["spec"].get("nodeName") for k, m in api.objects.items() if k.resource == PODS]
        assert sorted(filter(None, placed)) == ["m-node-1", "m-node-1"]


async def test_restart_finds_its_work_done(deployment: Any) -> None:
    api = FakeApi()
    async with running(api) as loop:
        await add(api, deployment(2))
        await api.until(lambda: ready(api) == 2 and loop.idle)
    api.writes.clear()
    async with running(api) as loop:
        await api.until(lambda: loop.idle)
        assert api.writes == []

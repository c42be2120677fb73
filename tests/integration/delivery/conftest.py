"""Two simulated members for all tests of a module, a lane to each, and everybody else who writes there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.content.blobs import digest_of
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.kube.client import KubeClient, resource_path
from services._rules import constants as const
from services._rules.identities import work_id
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings
from tests.support.waiting import NotYet, eventually

PATIENCE = 60.0
UID = "u1"
PLURALS = {"Ingress": "ingresses", "Endpoints": "endpoints"}


def plural(kind: str) -> str:
    """The name of a kind in URLs."""
    return PLURALS.get(kind, f"{kind.lower()}s")


def key_of(manifest: Manifest) -> ObjectKey:
    """The key of a manifest."""
    group = manifest["apiVersion"].rpartition("/")[0]
    metadata = manifest["metadata"]
    return ObjectKey(group, plural(manifest["kind"]), metadata.get("namespace", ""), metadata["name"])


class Desk:
    """The works of one member and what was reported of them."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.works: dict[ObjectKey, tuple[WorkEvent, int]] = {}
        self.latest: dict[ObjectKey, WorkObserved] = {}
        self.reports: list[WorkObserved] = []
        self.source = WorkSource(
            work=self.works.get,
            observed=self.latest.get,
            blob=self._blob,
            previous=self._previous,
            report=self._report,
            now=lambda: float(len(self.reports)),
        )
        self._blobs: dict[str, bytes] = {}
        self._before: dict[ObjectKey, bytes] = {}
        self._news = asyncio.Event()
        self._positions = count(1)

    async def _blob(self, digest: str) -> bytes:
        return self._blobs[digest]

    async def _previous(self, key: ObjectKey, work: WorkRendered) -> bytes | None:
        return self._before.get(key)

    def _report(self, event: WorkObserved) -> None:
        self.latest[event.key] = event
        self.reports.append(event)
        self._news.set()

    def give(self, manifest: Manifest, generation: int = 1) -> ObjectKey:
        """A work for a manifest, marked as the renderer marks it."""
        key = key_of(manifest)
        metadata = dict(manifest["metadata"])
        metadata["labels"] = {
            **metadata.get("labels", {}),
            const.MANAGED_LABEL: const.LABEL_TRUE,
            const.WORK_ID_LABEL: work_id(self.cluster, key, UID),
        }
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            const.TEMPLATE_GENERATION_ANNOTATION: str(generation),
        }
        data = msgspec.json.encode({**manifest, "metadata": metadata})
        found = self.works.get(key)
        if found is not None and isinstance(found[0], WorkRendered):
            self._before[key] = self._blobs[found[0].digest]
        work = WorkRendered(
            cluster=self.cluster,
            key=key,
            uid=UID,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            digest=digest_of(data),
        )
        self._blobs[work.digest] = data
        self.works[key] = work, next(self._positions)
        return key

    def withdraw(self, key: ObjectKey) -> None:
        """The work is no more."""
        work, _ = self.works[key]
        gone = WorkWithdrawn(cluster=self.cluster, key=key, uid=work.uid, api_version=work.api_version, kind=work.kind)
        self.works[key] = gone, next(self._positions)

    async def until(self, key: ObjectKey, holds: Callable[[WorkObserved], bool]) -> WorkObserved:
        """The first latest report on an object that is as wanted; AssertionError with the last one after a while."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (event := self.latest.get(key)) is None or not holds(event):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{key}: last reported {self.latest.get(key)}") from None
        return event


class Member:
    """A running member, our lane to it, and a client of somebody else."""

    def __init__(self, running: Running, desk: Desk, lane: Lane, client: KubeClient) -> None:
        self.running = running
        self.desk = desk
        self.lane = lane
        self.client = client
        self.name = running.name

    def path(self, manifest: Manifest, subresource: str = "") -> str:
        """URL path of an object."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        key = key_of(manifest)
        return resource_path(group, version, key.resource, key.namespace, key.name, subresource)

    async def deliver(self, manifest: Manifest, generation: int = 1) -> WorkObserved:
        """Have a manifest delivered; the report that says it was tried."""
        key = self.desk.give(manifest, generation)
        work, seq = self.desk.works[key]
        assert isinstance(work, WorkRendered)
        self.lane.look_at(key)
        return await self.desk.until(key, lambda event: event.work_seq == seq or event.digest == work.digest)

    async def apply(self, manifest: Manifest, generation: int = 1) -> Manifest:
        """Have a manifest delivered that is accepted; the object then."""
        event = await self.deliver(manifest, generation)
        assert event.applied, event.message
        return await self.live(manifest)

    async def live(self, manifest: Manifest) -> Manifest:
        """The object in the member."""
        return await self.client.get(self.path(manifest))

    async def patch(self, manifest: Manifest, patch: Manifest, subresource: str = "", manager: str = "") -> Manifest:
        """A merge patch by somebody in the member."""
        path = self.path(manifest, subresource)
        return await self.client.patch(f"{path}?fieldManager={manager}" if manager else path, patch)

    async def put_status(self, manifest: Manifest, status: Manifest) -> None:
        """What a controller of the member reports on an object."""
        await self.patch(manifest, {"status": status}, "status", "controller")

    async def until_live(self, manifest: Manifest, holds: Callable[[Manifest], bool]) -> Manifest:
        """The object in the member once it is as wanted."""

        async def holding() -> Manifest:
            live = await self.live(manifest)
            if not holds(live):
                raise NotYet(live)
            return live

        found: Manifest = await eventually(holding, self.path(manifest))
        return found

    @asynccontextmanager
    async def lane_of(self, desk: Desk, client: type[KubeClient] = KubeClient) -> AsyncIterator[Lane]:
        """Another lane to this member, as after a start."""
        lane = Lane(self.name, lambda: client.from_kubeconfig(self.running.kubeconfig), desk.source, LaneSettings())
        lane.start()
        try:
            yield lane
        finally:
            await lane.close()

    def new_desk(self) -> Desk:
        """Works and reports of another lane."""
        return Desk(self.name)

    async def fault(self, path: str, body: Manifest) -> None:
        """Set a fault through the member's fault port."""
        headers = {"Authorization": f"Bearer {self.running.token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.running.admin_url + path, json=body, headers=headers) as answer,
        ):
            assert answer.status == 200, await answer.text()

    async def namespace(self, name: str) -> str:
        """A namespace of its own for one test."""
        await self.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name


@asynccontextmanager
async def running_member(name: str, directory: Path, **settings: Any) -> AsyncIterator[Member]:
    """A member in this process with a lane to it, as long as the block lasts."""
    stop = asyncio.Event()
    ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
    chosen = MemberSettings(**{"name": name, "nodes": 1, "data_dir": directory / name, **settings})
    task = asyncio.create_task(run_member(chosen, ready.set_result, stop))
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    try:
        if task.done():
            await task
        running = await ready
        desk = Desk(name)
        lane = Lane(name, lambda: KubeClient.from_kubeconfig(running.kubeconfig), desk.source, LaneSettings())
        client = await KubeClient.from_kubeconfig(running.kubeconfig)
        lane.start()
        try:
            yield Member(running, desk, lane, client)
        finally:
            await lane.close()
            await client.close()
    finally:
        stop.set()
        await task


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def members(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Member, Member]]:
    """Two members."""
    directory = tmp_path_factory.mktemp("members")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_member("m1", directory))
        second = await stack.enter_async_context(running_member("m2", directory))
        yield first, second


@pytest.fixture
def member(members: tuple[Member, Member]) -> Member:
    """One of the members."""
    return members[0]


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test of the module uses."""
    numbers: Any = request.config.stash.setdefault(_NUMBERS, count(1))
    return f"n{next(numbers)}"


_NUMBERS = pytest.StashKey[Any]()

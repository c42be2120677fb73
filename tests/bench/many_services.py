"""Many exported Services that every member imports: how soon, at what cost, and what is written in vain."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.common.layout import CONTROL
from tests.bench.measures import emit, percentile
from tests.bench.processes import Meter
from tests.e2e.fleet import Fleet
from tests.e2e.space import Space, clusters

SPACE: Final = "services"
API: Final = "multicluster.x-k8s.io/v1alpha1"
SLICES: Final = resource_path("discovery.k8s.io", "v1", "endpointslices", SPACE)
IMPORTED: Final = {"labelSelector": "endpointslice.kubernetes.io/managed-by=endpointslice-controller.karmada.io"}
_PATIENCE: Final = 1800.0
_AT_ONCE: Final = 16
_BUSY: Final = 10
"""Writes to the control plane within five seconds from which on it is not at rest."""


class _Metadata(Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Endpoint(Struct):
    addresses: list[str]


class _Slice(Struct):
    metadata: _Metadata
    endpoints: Raw = Raw(b"[]")
    ports: Raw = Raw(b"[]")


class _List(Struct):
    metadata: _Metadata
    items: list[_Slice]


_slice: Final = msgspec.json.Decoder(_Slice)
_list: Final = msgspec.json.Decoder(_List)
_endpoints: Final = msgspec.json.Decoder(list[_Endpoint])


class Follower:
    """Follows the imported slices of one cluster: which first address each had when, and what was written in vain."""

    def __init__(self, client: KubeClient, heard: Callable[[], None]) -> None:
        self.first: dict[str, str] = {}
        self.seen: dict[tuple[str, str], float] = {}
        """When (of `time.perf_counter`) a slice first had an address in front."""
        self.changed = 0
        self.in_vain = 0
        """Writes after which a slice was what it was before."""
        self._content: dict[str, tuple[bytes, bytes]] = {}
        self._client = client
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """List, then watch."""
        found = _list.decode(await self._client.request("GET", SLICES, params=IMPORTED))
        for item in found.items:
            self._take(item)
        self._task = asyncio.create_task(self._run(found.metadata.resource_version))

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def check(self) -> None:
        """Raise what ended the watch, if anything did."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise ConnectionError("a watch of slices ended")

    async def _run(self, version: str) -> None:
        while True:
            async for events in self._client.watch(SLICES, version, params=IMPORTED):
                for event in events:
                    if event.type == "ERROR":
                        raise ConnectionError(f"a watch of slices was refused: {bytes(event.object)[:200]!r}")
                    item = _slice.decode(event.object)
                    version = item.metadata.resource_version or version
                    if event.type == "DELETED":
                        self._content.pop(item.metadata.name, None)
                        self.first.pop(item.metadata.name, None)
                    elif event.type != "BOOKMARK":
                        self._take(item)
                self._heard()

    def _take(self, item: _Slice) -> None:
        name, content = item.metadata.name, (bytes(item.endpoints), bytes(item.ports))
        before = self._content.get(name)
        self._content[name] = content
        if before == content:
            self.in_vain += 1
            return
        self.changed += before is not None
        endpoints = _endpoints.decode(item.endpoints)
        self.first[name] = endpoints[0].addresses[0] if endpoints else ""
        self.seen.setdefault((name, self.first[name]), time.perf_counter())


class ServiceFleet:
    """Services of the bench, each exported by one member and imported by all, with a follower for every cluster."""

    def __init__(self, fleet: Fleet, services: int, endpoints: int) -> None:
        self.fleet = fleet
        self.members = list(fleet.members)
        self.services = [f"web-{number:03}" for number in range(services)]
        self._endpoints = endpoints
        self._clients: dict[str, KubeClient] = {}
        self._followers: dict[str, Follower] = {}
        self._news = asyncio.Event()
        self._chance = random.Random(7)
        self._last = 0
        self._idle: dict[str, float] = {}

    def exporter(self, service: str) -> str:
        """The member that exports a Service."""
        return self.members[self.services.index(service) % len(self.members)]

    def imported(self, service: str) -> str:
        """Name of its slice where it is imported."""
        return f"imported-{self.exporter(service)}-{service}-x"

    def _slice(self, service: str, address: str) -> Manifest:
        number = self.services.index(service)
        target = {"kind": "Pod", "namespace": SPACE, "uid": "8f14e45f-ceea-467f-9e3c-2b6d1f0a9c11"}
        addresses = [address, *(f"10.{number >> 8}.{number & 255}.{each + 1}" for each in range(1, self._endpoints))]
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": [each],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "nodeName": "node-1",
                    "targetRef": {**target, "name": f"{service}-5d9c7b6f4-{place:05}"},
                }
                for place, each in enumerate(addresses)
            ],
            "ports": [{"name": "http", "port": 8080}],
        }

    async def prepare(self) -> None:
        """Create everything, and wait until every member has every slice and every derived Service."""
        space = Space(self.fleet, SPACE)
        for name in (*self.members, CONTROL):
            self._clients[name] = await KubeClient.from_kubeconfig(self.fleet.layout.kubeconfig(name), connections=16)
        await asyncio.to_thread(self._policies, space)
        group = resource_path("multicluster.x-k8s.io", "v1alpha1", "serviceexports", SPACE)
        imports = resource_path("multicluster.x-k8s.io", "v1alpha1", "serviceimports", SPACE)
        control, began = self._clients[CONTROL], time.perf_counter()
        await self._until_namespaces()
        spec = {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]}
        given: list[tuple[KubeClient, str, Manifest]] = []
        for name in self.services:
            export = {"apiVersion": API, "kind": "ServiceExport"}
            given.append((self._clients[self.exporter(name)], SLICES, self._slice(name, self._address())))
            given.append(
                (control, group, {**export, "metadata": {"name": name, "labels": {"by": self.exporter(name)}}})
            )
            item = {"apiVersion": API, "kind": "ServiceImport", "metadata": {"name": name}, "spec": spec}
            given.append((control, imports, item))
        await _each(given)
        emit("objects created", time.perf_counter() - began, "s", services=len(self.services))
        for name in (*self.members, CONTROL):
            follower = self._followers[name] = Follower(self._clients[name], self._news.set)
            await follower.start()
        wanted = {self.imported(service) for service in self.services}
        await self._until(lambda: all(wanted <= each.first.keys() for each in self._followers.values()), "all slices")
        derived = resource_path("", "v1", "services", SPACE)
        for name in self.members:
            await self._holds(name, derived)
        emit(
            "every member has every slice and derived Service",
            time.perf_counter() - began,
            "s",
            services=len(self.services),
            members=len(self.members),
            endpoints=self._endpoints,
        )

    def _policies(self, space: Space) -> None:
        space.control.run("create", "namespace", SPACE)
        named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        kinds = [{**named, "name": f"{kind}.multicluster.x-k8s.io"} for kind in ("serviceexports", "serviceimports")]
        policy = {"apiVersion": "policy.karmada.io/v1alpha1", "metadata": {"name": "definitions"}}
        spec = {"resourceSelectors": kinds, "placement": clusters(*self.members)}
        space.apply({**policy, "kind": "ClusterPropagationPolicy", "spec": spec})
        for name in ("", *self.members):
            selector: Manifest = {"apiVersion": API, "kind": "ServiceImport"}
            if name:
                selector = {"apiVersion": API, "kind": "ServiceExport", "labelSelector": {"matchLabels": {"by": name}}}
            spec = {"resourceSelectors": [selector], "placement": clusters(*([name] if name else self.members))}
            metadata = {"name": f"from-{name}" if name else "imports", "namespace": SPACE}
            space.apply({**policy, "kind": "PropagationPolicy", "metadata": metadata, "spec": spec})

    async def _until_namespaces(self) -> None:
        for name in self.members:
            while True:
                try:
                    await self._clients[name].get(resource_path("", "v1", "namespaces", "", SPACE))
                    break
                except ApiError as error:
                    if error.status != 404:
                        raise
                    await asyncio.sleep(0.05)

    def _address(self) -> str:
        self._last += 1
        return f"10.{128 + (self._last >> 16)}.{self._last >> 8 & 255}.{self._last & 255}"

    async def _holds(self, member: str, path: str) -> None:
        """Return once a member has as many objects as there are Services."""
        while True:
            if len((await self._clients[member].get(path))["items"]) >= len(self.services):
                return
            await asyncio.sleep(0.5)

    async def rest(self) -> None:
        """Return once the Events about all that was delivered are written: they go out slowly."""
        connection = await Connection.open(self.fleet.installation.log_access, name="bench/rest")
        try:
            objects = JetStreamLog(connection, "OBJECTS")
            before = -_BUSY
            while (end := (await objects.identity()).last_seq) >= before + _BUSY:
                before = end
                await asyncio.sleep(5.0)
        finally:
            await connection.close()

    async def idle(self, seconds: float) -> None:
        """Measure what it costs while nothing changes."""
        meter = Meter(self.fleet.layout)
        await asyncio.sleep(seconds)
        used = meter.used()
        self._idle = {part: each / seconds for part, each in meter.parts(used).items()}
        shown = {name: round(1000 * each / seconds) for name, each in _most(used)}
        emit("CPU while nothing changes", 1000 * sum(self._idle.values()), "ms/s", **shown)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while not holds():
                    self._news.clear()
                    for each in self._followers.values():
                        each.check()
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {_PATIENCE:g} s") from None

    async def changes(self, rounds: int, pause: float, what: str) -> None:
        """Change an endpoint of some Service every `pause` seconds; print how soon all have it, and the cost."""
        followers = list(self._followers.values())
        members = [self._followers[name] for name in self.members]
        before = {name: (each.changed, each.in_vain) for name, each in self._followers.items()}
        meter, began = Meter(self.fleet.layout), time.perf_counter()
        wanted: list[tuple[str, str, float]] = []
        for number in range(rounds):
            await asyncio.sleep(max(0.0, began + number * pause - time.perf_counter()))
            service, address = self._chance.choice(self.services), self._address()
            sent = time.perf_counter()
            endpoints = self._slice(service, address)["endpoints"]
            await self._clients[self.exporter(service)].patch(f"{SLICES}/{service}-x", {"endpoints": endpoints})
            wanted.append((service, address, sent))
        last = {service: address for service, address, _ in wanted}
        await self._until(
            lambda: all(each.first.get(self.imported(name)) == last[name] for each in followers for name in last), what
        )
        took = time.perf_counter() - began
        spent = meter.used()
        used = {part: each - took * self._idle.get(part, 0.0) for part, each in meter.parts(spent).items()}
        # One that was overtaken by the next change of its Service counts from there.
        arrived = [_arrived(members, self.imported(name), address, wanted, sent) for name, address, sent in wanted]
        latencies = sorted(1000 * seconds for seconds in arrived if seconds is not None)
        counted = {name: (each.changed, each.in_vain) for name, each in self._followers.items()}
        written = [counted[name][0] - before[name][0] for name in self.members]
        in_vain = sum(counted[name][1] - before[name][1] for name in counted)
        emit(
            f"{what}: endpoint change to every importing member, p99",
            percentile(latencies, 0.99),
            "ms",
            p50=round(percentile(latencies, 0.5)),
            longest=round(latencies[-1]),
            changes=rounds,
            per_second=round(rounds / took, 1),
        )
        emit(
            f"{what}: CPU per change, besides what idling costs",
            1000 * sum(used.values()) / rounds,
            "ms",
            **{part: round(1000 * seconds / rounds, 1) for part, seconds in used.items()},
            with_idling={name: round(1000 * seconds / rounds, 1) for name, seconds in _most(spent)},
        )
        emit(
            f"{what}: slices written in members without a change",
            in_vain,
            "writes",
            changed=sum(written),
            most=max(written),
        )

    async def close(self) -> None:
        """End all watches and connections."""
        for follower in self._followers.values():
            await follower.stop()
        for client in self._clients.values():
            await client.close()


def _most(used: Mapping[str, float]) -> list[tuple[str, float]]:
    """The processes that use most, of all but the members."""
    others = [item for item in used.items() if not item[0].startswith("member")]
    return sorted(others, key=lambda item: -item[1])[:8]


def _arrived(
    members: Sequence[Follower], name: str, address: str, wanted: Iterable[tuple[str, str, float]], sent: float
) -> float | None:
    """Seconds from a change until the last member had it; None where a later change of the slice overtook it."""
    times = [each.seen.get((name, address)) for each in members]
    found = [moment for moment in times if moment is not None]
    return max(found) - sent if len(found) == len(times) else None


async def _each(given: Iterable[tuple[KubeClient, str, Manifest]]) -> None:
    """Create objects, some at a time."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(client: KubeClient, path: str, manifest: Manifest) -> None:
        async with room:
            await client.create(path, manifest)

    async with asyncio.TaskGroup() as group:
        for client, path, manifest in given:
            group.create_task(one(client, path, manifest))


async def measured_many(fleet: Fleet, services: int, endpoints: int, rounds: int) -> None:
    """Prepare, then change one by one, and several in a second."""
    many = ServiceFleet(fleet, services, endpoints)
    try:
        await many.prepare()
        await many.rest()
        await many.idle(20.0)
        await many.changes(rounds, 1.0, "one a second")
        await many.changes(rounds, 0.2, "five a second")
    finally:
        await many.close()

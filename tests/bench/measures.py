"""The measures of `just bench` on a running installation: what is done, what is watched, which figures follow."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services.cli.common.layout import CONTROL, Layout
from tests.bench.logcount import OBJECTS, LogCount
from tests.bench.observing import Observer, Seen, Wanted
from tests.bench.playing import Player
from tests.bench.processes import Meter, pss_mib, running

FIGURES: Final[list[Manifest]] = []
"""What was printed so far."""
NAMESPACE: Final = "bench"
REPLICAS: Final = 2
CONCURRENCY: Final = 32
SUMMED: Final = "replicas or unavailableReplicas is the sum of all members: without waiting for pods to get ready"
CONFIG_MAPS: Final = resource_path("", "v1", "configmaps", NAMESPACE)
DEPLOYMENTS: Final = resource_path("apps", "v1", "deployments", NAMESPACE)
POLICIES: Final = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", NAMESPACE)
NAMESPACES: Final = resource_path("", "v1", "namespaces")


def emit(name: str, value: float, unit: str, **more: object) -> None:
    """Print one figure as a line of JSON."""
    figure = {"name": name, "value": round(value, 2), "unit": unit, **more, "load": round(os.getloadavg()[0], 1)}
    FIGURES.append(figure)
    print(json.dumps(figure), flush=True)


def deployment(name: str) -> Manifest:
    """A Deployment as a user writes it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name, "bench": "yes"}},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.27"}]},
            },
        },
    }


def config_map(name: str) -> Manifest:
    """A small ConfigMap."""
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"bench": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": name}}


def policy(members: Iterable[str]) -> Manifest:
    """Everything labelled `bench` goes to all members, with all its replicas."""
    selector = {"matchLabels": {"bench": "yes"}}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "bench", "namespace": NAMESPACE},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": selector},
                {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": selector},
            ],
            "placement": {
                "clusterAffinity": {"clusterNames": list(members)},
                "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
            },
        },
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _any(_: Seen) -> bool:
    return True


class Bench:
    """One installation under measurement."""

    def __init__(self, layout: Layout, *, play: bool = False) -> None:
        """`play` makes the bench write the status of Deployments in members, where nobody else does."""
        self.layout = layout
        self._play = play
        self._players: list[Player] = []
        installation = layout.load()
        assert installation is not None
        self.members = [member.name for member in installation.members]
        self.clients: dict[str, KubeClient] = {}
        self.count: LogCount

    async def open(self) -> None:
        """Connect, and prepare namespace and policy in every cluster."""
        self.count = await LogCount.open(self.layout)
        for name in (CONTROL, *self.members):
            self.clients[name] = await KubeClient.from_kubeconfig(self.layout.kubeconfig(name))
        namespaces = {name: await self.observer(name, NAMESPACES, {"exists": _any}) for name in self.members}
        control = self.clients[CONTROL]
        listed = await control.get(NAMESPACES)
        if all(item["metadata"]["name"] != NAMESPACE for item in listed["items"]):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await control.create(NAMESPACES, namespace)
            await control.create(POLICIES, policy(self.members))
        for observer in namespaces.values():
            await observer.all("exists", [NAMESPACE])
            await observer.stop()
        if self._play:
            self._players = [Player(self.clients[name], DEPLOYMENTS) for name in self.members]
            for player in self._players:
                await player.start()

    async def close(self) -> None:
        """Disconnect."""
        for player in self._players:
            await player.stop()
        for client in self.clients.values():
            await client.close()
        await self.count.close()

    async def observer(self, cluster: str, path: str, conditions: dict[str, Wanted]) -> Observer:
        """A watch of one kind in one cluster, begun."""
        observer = Observer(self.clients[cluster], path, conditions)
        await observer.start()
        return observer

    async def observers(self) -> tuple[Observer, list[Observer]]:
        """Watches of the Deployments: of the templates, and of the copies in every member."""
        total = REPLICAS * len(self.members)
        control = await self.observer(
            CONTROL,
            DEPLOYMENTS,
            {
                # Members report what they are about to start before it is ready.
                "summed": lambda seen: total in (seen.status.replicas, seen.status.unavailable_replicas),
                "ready": lambda seen: seen.status.ready_replicas == total,
            },
        )
        copies = [await self.observer(name, DEPLOYMENTS, {"exists": _any}) for name in self.members]
        return control, copies

    async def create(self, cluster: str, path: str, manifests: Iterable[Manifest]) -> None:
        """POST objects, a bounded number at once."""
        room = asyncio.Semaphore(CONCURRENCY)

        async def one(manifest: Manifest) -> None:
            async with room:
                await self.clients[cluster].request("POST", path, body=manifest)

        async with asyncio.TaskGroup() as group:
            for manifest in manifests:
                group.create_task(one(manifest))

    async def clear(self, path: str, *observers: Observer, cluster: str = CONTROL) -> None:
        """Delete the collection and wait until nobody holds anything of it."""
        await self.clients[cluster].request("DELETE", path)
        for observer in observers:
            await observer.none_left()

    async def throughput(self, number: int) -> None:
        """Many Deployments at once: copies and sums per second, CPU per copy, log entries per workload."""
        control, copies = await self.observers()
        names = [f"burst-{index}" for index in range(number)]
        before = await self.count.positions()
        meter = Meter(self.layout)
        began = time.perf_counter()
        creating = asyncio.create_task(self.create(CONTROL, DEPLOYMENTS, map(deployment, names)))
        delivered = max([await observer.all("exists", names) for observer in copies])
        at_delivery = meter.used()
        await creating
        summed = await control.all("summed", names)
        ready = await control.all("ready", names)
        used = meter.used()
        await self._quiet()
        at_rest = meter.used()
        written = {name: await self.count.since(name, at) for name, at in before.items()}
        total = number * len(self.members)
        emit("copies_delivered_per_second", total / (delivered - began), "1/s", deployments=number)
        emit("status_summed_per_second", number / (summed - began), "1/s", deployments=number, what=SUMMED)
        emit("status_ready_per_second", number / (ready - began), "1/s", deployments=number, what="readyReplicas")
        self._cpu("to_delivery", meter.parts(at_delivery), at_delivery, total)
        self._cpu("to_ready", meter.parts(used), used, total)
        # Kubernetes Events are written last; what they cost belongs to the copies too.
        self._cpu("to_rest", meter.parts(at_rest), at_rest, total)
        facts, objects = written["FACTS"], written.get(OBJECTS, Counter())
        emit(
            "burst_appends_per_workload",
            facts.total() / number,
            "facts",
            by_subject={name: round(count / number, 2) for name, count in facts.items()},
            observed=round(written["OBSERVED"].total() / number, 2),
            objects={name: round(count / number, 2) for name, count in objects.items()},
        )
        await self.clear(DEPLOYMENTS, control, *copies)
        for observer in (control, *copies):
            await observer.stop()

    def _cpu(self, until: str, parts: dict[str, float], used: dict[str, float], copies: int) -> None:
        each = {name: round(seconds * 1000 / copies, 2) for name, seconds in used.items()}
        emit(f"own_cpu_ms_per_copy_{until}", parts["own"] * 1000 / copies, "ms", by_process=each)
        for part in ("apiserver", "members", "log"):
            if part in parts:
                emit(f"{part}_cpu_ms_per_copy_{until}", parts[part] * 1000 / copies, "ms")

    async def latency(self, number: int) -> None:
        """One Deployment at a time: from the POST's start to every copy, and to the sum on the template."""
        control, copies = await self.observers()
        delivered, summed, ready = [], [], []
        for index in range(number):
            name = f"single-{index}"
            began = time.perf_counter()
            posting = asyncio.create_task(self.create(CONTROL, DEPLOYMENTS, [deployment(name)]))
            delivered.append(max([await observer.all("exists", [name]) for observer in copies]) - began)
            summed.append(await control.all("summed", [name]) - began)
            ready.append(await control.all("ready", [name]) - began)
            await posting
        for what, values, note in (
            ("submit_to_delivered_ms", delivered, "in every member"),
            ("submit_to_status_ms", summed, SUMMED),
            ("submit_to_ready_ms", ready, "status.readyReplicas is the sum; includes the simulators' 100 ms per pod"),
        ):
            emit(f"{what}_median", statistics.median(values) * 1000, "ms", what=note, objects=number)
            emit(f"{what}_p99", percentile(values, 0.99) * 1000, "ms", objects=number)
        await self.clear(DEPLOYMENTS, control, *copies)
        for observer in (control, *copies):
            await observer.stop()

    async def appends(self) -> None:
        """One Deployment: what is written until it is delivered, and until it is ready everywhere."""
        control, copies = await self.observers()
        before = await self.count.positions()
        await self.create(CONTROL, DEPLOYMENTS, [deployment("counted")])
        for observer in copies:
            await observer.all("exists", ["counted"])
        await control.all("summed", ["counted"])
        facts = await self.count.since("FACTS", before["FACTS"])
        until_delivered = facts.total() - facts["rollup"]
        await control.all("ready", ["counted"])
        await self._quiet()
        facts = await self.count.since("FACTS", before["FACTS"])
        observed = await self.count.since("OBSERVED", before["OBSERVED"])
        objects = await self.count.since(OBJECTS, before.get(OBJECTS, 0))
        emit("facts_appends_per_workload_to_delivery", until_delivered, "facts")
        emit("facts_appends_per_workload_to_ready", facts.total(), "facts", by_subject=dict(facts))
        emit("observed_appends_per_workload", observed.total(), "messages")
        if objects:
            emit("events_written_per_workload", objects["events"], "objects")
            written = objects.total() - objects["events"]
            emit("objects_writes_per_workload", written, "objects", by_resource=dict(objects))
        await self.clear(DEPLOYMENTS, control, *copies)
        for observer in (control, *copies):
            await observer.stop()

    async def _quiet(self, seconds: float = 1.5) -> None:
        """Return once nothing was appended for a while."""
        last = None
        while last != (last := await self.count.positions()):  # noqa: ASYNC110  # silence has no event
            await asyncio.sleep(seconds)

    async def memory(self) -> None:
        """Proportional memory of every process."""
        found = {name: round(pss_mib(pid), 1) for name, pid in running(self.layout).items()}
        emit("pss_mib_total", sum(found.values()), "MiB", by_process=found)

    async def baseline(self, number: int) -> None:
        """The same manifests written straight to the members, all at once."""
        copies = [await self.observer(name, DEPLOYMENTS, {"exists": _any}) for name in self.members]
        names = [f"direct-{index}" for index in range(number)]
        meter = Meter(self.layout)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for name in self.members:
                group.create_task(self.create(name, DEPLOYMENTS, map(deployment, names)))
        delivered = max([await observer.all("exists", names) for observer in copies])
        used = meter.used()
        total = number * len(self.members)
        emit("direct_copies_per_second", total / (delivered - began), "1/s", deployments=number)
        if "members" in (parts := meter.parts(used)):
            emit("direct_members_cpu_ms_per_copy", parts["members"] * 1000 / total, "ms")
        for name, observer in zip(self.members, copies, strict=True):
            await self.clear(DEPLOYMENTS, observer, cluster=name)
            await observer.stop()

    async def fill(self, number: int) -> None:
        """ConfigMaps that stay: bindings for a restart."""
        copies = [await self.observer(name, CONFIG_MAPS, {"exists": _any}) for name in self.members]
        names = [f"kept-{index}" for index in range(number)]
        began = time.perf_counter()
        await self.create(CONTROL, CONFIG_MAPS, map(config_map, names))
        delivered = max([await observer.all("exists", names) for observer in copies])
        emit("config_map_copies_per_second", number * len(self.members) / (delivered - began), "1/s", objects=number)
        await self._quiet()
        for observer in copies:
            await observer.stop()

"""Evictions per second: one member is tainted NoExecute while many objects run there; one JSON line per figure.

    python tests/bench/bench_eviction.py [NUMBER]

NUMBER (500) Deployments have one replica in each of two members. `requested` counts until the last object is told to
leave, `replaced` until the last one is placed elsewhere, `healthy` until the other member reported the last replacement
healthy, `drained` until the last old copy is withdrawn, which follows upon that. Times are those at which the log
stored the facts.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from schemas.codec import Known, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.eviction import EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided
from schemas.events.work import WorkWithdrawn
from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.common.layout import CONTROL, Layout
from tests.bench.measures import DEPLOYMENTS, NAMESPACE, POLICIES, deployment, emit, policy
from tests.e2e.fleet import Fleet

SETTINGS = {
    "FLEETLOG_FEATURE_GATES": "Failover=true",
    "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true",
}
LEFT = "member1"
TAINT = {"key": "bench", "effect": "NoExecute"}
PATIENCE = 300


def half_and_half() -> Manifest:
    """Replicas are divided evenly among the members that take them."""
    weights = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in ("member1", "member2")]
    made = policy(["member1", "member2"])
    made["spec"]["placement"]["replicaScheduling"] = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    }
    return made


class Facts:
    """A stream of an installation from a position on, waited for."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._log = JetStreamLog(connection, stream)

    @classmethod
    async def open(cls, layout: Layout, stream: str = "FACTS") -> Facts:
        """Connect to the log."""
        installation = layout.load()
        assert installation is not None
        return cls(await Connection.open(installation.log_access, name="bench"), stream)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def position(self) -> int:
        """Last position."""
        return (await self._log.identity()).last_seq

    async def times(self, since: int, number: int, wanted: Callable[[Known], bool]) -> list[float]:
        """When the first `number` events after a position that are wanted were stored."""
        found: list[float] = []
        async with asyncio.timeout(PATIENCE):
            while len(found) < number:
                stop = await self.position()
                if stop <= since:
                    await asyncio.sleep(0.1)
                    continue
                async for message in self._log.read([">"], since + 1, stop):
                    if message.subject.startswith(("cluster.", "eviction.", "observed.", "placement.", "work.")):
                        event = decode(message.subject, message.data)
                        if wanted(event):
                            found.append(message.time)
                since = stop
        return found[:number]


def tainted(event: Known) -> bool:
    """The fact that the member is tainted."""
    return isinstance(event, ClusterChanged) and event.name == LEFT and b'"bench"' in bytes(event.manifest)


def healthy(event: Known) -> bool:
    """The fact that a replacement is healthy."""
    return isinstance(event, WorkObserved) and event.cluster != LEFT and event.health == "Healthy"


async def measure(layout: Layout, number: int) -> None:
    """Create, taint, and read off the log how it went."""
    facts, reports = await Facts.open(layout), await Facts.open(layout, "OBSERVED")
    client = await KubeClient.from_kubeconfig(layout.kubeconfig(CONTROL))
    try:
        await client.create(
            resource_path("", "v1", "namespaces"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        await client.create(POLICIES, half_and_half())
        before = await facts.position()
        room = asyncio.Semaphore(32)

        async def create(index: int) -> None:
            async with room:
                await client.create(DEPLOYMENTS, deployment(f"web-{index}"))

        await asyncio.gather(*(create(index) for index in range(number)))
        await facts.times(before, number, lambda event: isinstance(event, PlacementDecided))
        await settled(client, number)
        before, reported = await facts.position(), await reports.position()
        path = resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", LEFT)
        await client.patch(path, {"spec": {"taints": [TAINT]}})
        (began,) = await facts.times(before, 1, tainted)
        steps: dict[str, Callable[[Known], bool]] = {
            "requested": lambda event: isinstance(event, EvictionRequested),
            "replaced": lambda event: (
                isinstance(event, PlacementDecided) and all(target.name != LEFT for target in event.clusters)
            ),
            "drained": lambda event: isinstance(event, WorkWithdrawn) and event.cluster == LEFT,
        }
        ends = {name: max(await facts.times(before, number, wanted)) for name, wanted in steps.items()}
        ends["healthy"] = max(await reports.times(reported, number, healthy))
        for name, end in sorted(ends.items(), key=lambda item: item[1]):
            seconds = end - began
            emit(f"evictions_{name}_per_second", number / seconds, "1/s", objects=number, seconds=round(seconds, 2))
    finally:
        await client.close()
        await facts.close()
        await reports.close()


async def settled(client: KubeClient, number: int) -> None:
    """Wait until every Deployment is ready in both members."""
    async with asyncio.timeout(PATIENCE):
        while True:
            items = (await client.get(DEPLOYMENTS))["items"]
            if sum((item.get("status") or {}).get("readyReplicas") == 2 for item in items) == number:
                return
            await asyncio.sleep(0.5)


def main() -> int:
    """Entry point."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
        fleet = Fleet(Path(directory), ["--members", "2", "--nodes", "12"], SETTINGS).start()
        try:
            asyncio.run(measure(fleet.layout, number))
        finally:
            fleet.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

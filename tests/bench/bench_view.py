"""Measures the ways to members: requests directly, through `clusters/NAME/proxy` and the global proxy, and watches.

One installation with two simulated members; every service and member shares this machine with the bench.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services.cli.common.layout import CONTROL
from tests.bench.measures import emit
from tests.e2e.fleet import Fleet
from tests.support.waiting import eventually

GLOBAL: Final = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"
MEMBER: Final = "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy"
MAPS: Final = resource_path("", "v1", "configmaps", "default")
REGISTRIES: Final = resource_path("search.karmada.io", "v1alpha1", "resourceregistries")
REGISTRY: Final[Manifest] = {
    "apiVersion": "search.karmada.io/v1alpha1",
    "kind": "ResourceRegistry",
    "metadata": {"name": "bench"},
    "spec": {"targetCluster": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
}


def config_map(name: str) -> Manifest:
    """A small config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * 500}}


def percentile(times: Sequence[float], share: float) -> float:
    """The time below which so many of them lie."""
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


async def requests(control: KubeClient, member: KubeClient, count: int) -> None:
    """The same requests by three ways in turn, each over a connection of its own."""
    ways: Mapping[str, tuple[KubeClient, str]] = {
        "direct": (member, ""),
        "clusters/NAME/proxy": (control, MEMBER),
        "global proxy": (control, GLOBAL),
    }
    for what, path in (("get", f"{MAPS}/m000"), ("list of 200", f"{MAPS}?limit=200")):
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(count if what == "get" else count // 5):
            for way, (client, prefix) in ways.items():
                began = time.perf_counter()
                await client.request("GET", prefix + path)
                times[way].append(time.perf_counter() - began)
        for way, found in times.items():
            median = statistics.median(found)
            more = {"p99_ms": round(percentile(found, 0.99) * 1000, 2), "requests": len(found)}
            emit(f"{what}, {way}", median * 1000, "ms", **more)
            if way != "direct":
                emit(f"{what}, {way}: beside direct", (median - statistics.median(times["direct"])) * 1000, "ms")


async def fan_out(control: KubeClient, member: KubeClient, watchers: int, changes: int) -> None:
    """Config maps are made in one member while so many clients watch all members."""
    listed = json.loads(await control.request("GET", GLOBAL + MAPS))
    version = listed["metadata"]["resourceVersion"]
    made: dict[str, float] = {}
    late: list[float] = []
    begun = 0

    async def watch() -> None:
        nonlocal begun
        seen = 0
        async for events in control.watch(GLOBAL + MAPS, version):
            if not events:
                begun += 1
            for event in events:
                if event.type != "ADDED":
                    continue
                late.append(time.perf_counter() - made[json.loads(bytes(event.object))["metadata"]["name"]])
                seen += 1
            if seen == changes:
                return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    try:
        await eventually(lambda: begun == watchers)
        began = time.perf_counter()
        for number in range(changes):
            name = f"w{number:03}"
            made[name] = time.perf_counter()
            await member.create(MAPS, config_map(name))
        await asyncio.gather(*tasks)
        took = time.perf_counter() - began
    finally:
        for task in tasks:
            task.cancel()
    more = {"p99_ms": round(percentile(late, 0.99) * 1000, 1), "watchers": watchers, "changes": changes}
    emit("watch through the global proxy: change until seen", statistics.median(late) * 1000, "ms", **more)
    emit("watch through the global proxy: events", len(late) / took, "1/s", watchers=watchers)


async def measured(fleet: Fleet, arguments: argparse.Namespace) -> None:
    """Fill a member, select it, and measure."""
    control = await KubeClient.from_kubeconfig(fleet.layout.kubeconfig(CONTROL))
    member = await KubeClient.from_kubeconfig(fleet.layout.kubeconfig("member1"))
    try:
        for number in range(200):
            await member.create(MAPS, config_map(f"m{number:03}"))
        await control.create(REGISTRIES, REGISTRY)

        async def shown() -> bool:
            found = json.loads(await control.request("GET", f"{GLOBAL}{MAPS}?resourceVersion=0"))
            return len(found["items"]) >= 200

        await eventually(shown)
        await requests(control, member, arguments.requests)
        await fan_out(control, member, arguments.watchers, arguments.changes)
    finally:
        await member.close()
        await control.close()


def main() -> int:
    """Run the bench; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500, help="requests by each way")
    parser.add_argument("--watchers", type=int, default=50, help="clients that watch")
    parser.add_argument("--changes", type=int, default=50, help="changes that they see")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
        fleet = Fleet(Path(directory), ["--members", "2"]).start()
        try:
            asyncio.run(measured(fleet, arguments))
        finally:
            fleet.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

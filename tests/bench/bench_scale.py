"""Measures many clusters: workloads for all of them, with every cluster quick, then with one that answers slowly.

`python -m tests.bench.bench_scale --clusters 100 --workloads 1000` is the full size; one JSON line per figure.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from services.cli.common.layout import CONTROL
from tests.bench.crowd import Crowd, names
from tests.bench.measures import DEPLOYMENTS, REPLICAS, Bench, deployment, emit, percentile
from tests.bench.observing import Observer, Seen
from tests.bench.processes import Meter, cpu_seconds, pss_mib, running
from tests.e2e.fleet import Fleet

_PATIENCE: Final = 3600.0


class Burst:
    """One burst of workloads for every cluster: who has all of them when, and what it cost."""

    def __init__(self, bench: Bench, workloads: list[str], slow: str) -> None:
        self._bench = bench
        self._workloads = workloads
        self._quick = [name for name in bench.members if name != slow]
        self._slow = slow

    async def play(self, crowd: Crowd, delay: int, *, clear: bool) -> None:
        """Create, wait until every quick cluster has everything and every template its sum, then for the slow one.

        `clear` deletes everything in the end, so that another burst finds nothing of it.
        """
        bench = self._bench
        total, least = REPLICAS * len(bench.members), REPLICAS * len(self._quick)

        def summed(seen: Seen) -> bool:
            return max(seen.status.replicas, seen.status.unavailable_replicas) >= (least if delay else total)

        templates = Observer(bench.clients[CONTROL], DEPLOYMENTS, {"summed": summed})
        copies = {
            name: Observer(bench.clients[name], DEPLOYMENTS, {"exists": lambda _: True}) for name in bench.members
        }
        for observer in (templates, *copies.values()):
            await observer.start()
        if delay:
            await asyncio.to_thread(crowd.slow_down, self._slow, delay)
        before = await bench.count.positions()
        meter, crowd_cpu, began = Meter(bench.layout), cpu_seconds(crowd.pid), time.perf_counter()
        creating = asyncio.create_task(bench.create(CONTROL, DEPLOYMENTS, map(deployment, self._workloads)))
        delivered = [await copies[name].all("exists", self._workloads, _PATIENCE) - began for name in self._quick]
        used = meter.used()
        spent = cpu_seconds(crowd.pid) - crowd_cpu
        late = len(self._workloads) - len(copies[self._slow].present)
        await creating
        settled = await templates.all("summed", self._workloads, _PATIENCE) - began
        number = len(self._workloads) * len(self._quick)
        about = {"clusters": len(bench.members), "workloads": len(self._workloads), "slow_ms": delay}
        emit("scale_copies_per_second", number / max(delivered), "1/s", **about)
        emit("scale_cluster_delivered_seconds_median", statistics.median(delivered), "s", **about)
        emit("scale_cluster_delivered_seconds_p99", percentile(delivered, 0.99), "s", **about)
        emit("scale_settled_seconds", settled, "s", what="every template has the sum of the quick clusters", **about)
        parts = meter.parts(used)
        each = {name: round(seconds * 1000 / number, 3) for name, seconds in used.items()}
        emit("scale_own_cpu_ms_per_copy", parts["own"] * 1000 / number, "ms", by_process=each, **about)
        emit("scale_members_cpu_ms_per_copy", spent * 1000 / number, "ms", **about)
        facts = await bench.count.since("FACTS", before["FACTS"])
        emit("scale_facts_per_copy", facts.total() / number, "facts", **about)
        if delay:
            emit("scale_slow_cluster_missing", late, "copies", what="when all others had everything", **about)
            await asyncio.to_thread(crowd.slow_down, self._slow, 0)
            lifted = time.perf_counter()
            last = await copies[self._slow].all("exists", self._workloads, _PATIENCE)
            emit("scale_slow_cluster_converged_seconds", max(0.0, last - lifted), "s", what="after it is quick again")
        if clear:
            await bench.clear(DEPLOYMENTS, templates, *copies.values())
        for observer in (templates, *copies.values()):
            await observer.stop()


async def measure(fleet: Fleet, crowd: Crowd, workloads: int, delays: list[int]) -> None:
    """One burst for each delay of the slow cluster, and the memory after them."""
    bench = Bench(fleet.layout)
    await bench.open()
    try:
        # The first of a kind opens a watch in every cluster.
        await bench.create(CONTROL, DEPLOYMENTS, [deployment("scale-first")])
        for name in bench.members:
            first = Observer(bench.clients[name], DEPLOYMENTS, {"exists": lambda _: True})
            await first.start()
            await first.all("exists", ["scale-first"])
            await first.stop()
        for index, slow in enumerate(delays):
            burst = Burst(bench, [f"scale-{index}-{number}" for number in range(workloads)], bench.members[-1])
            await burst.play(crowd, slow, clear=index + 1 < len(delays))
    finally:
        await bench.close()
    found = {name: round(pss_mib(pid), 1) for name, pid in running(fleet.layout).items()}
    emit("scale_pss_mib_total", sum(found.values()), "MiB", by_process=found, members_mib=round(pss_mib(crowd.pid)))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="just bench-scale", description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--slow-ms", type=int, default=2000, help="how long every answer of the slow cluster takes")
    parser.add_argument("--only-slow", action="store_true", help="not the burst in which every cluster is quick")
    asked = parser.parse_args()
    delays = [asked.slow_ms] if asked.only_slow else [0, asked.slow_ms]
    with tempfile.TemporaryDirectory(prefix="fleetlog-scale-") as directory:
        home = Path(directory)
        with Crowd(home / "members", asked.clusters) as crowd:
            joined = [
                word for name in names(asked.clusters) for word in ("--member", f"{name}={crowd.kubeconfig(name)}")
            ]
            fleet = Fleet(home / "fleet", ["--members", "0", *joined], start_seconds=600.0)
            began = time.perf_counter()
            fleet.start()
            emit("scale_start_seconds", time.perf_counter() - began, "s", clusters=asked.clusters)
            try:
                import uvloop

                uvloop.run(measure(fleet, crowd, asked.workloads, delays))
            finally:
                fleet.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Decisions per second through the log: a real server that syncs every write, facts in, placements out; JSON lines.

`through` counts decisions of a scheduler process beside 1,000 and 20,000 standing bindings; `scale` fills a log with
many bindings that are placed already and tells the process' memory, how long a start takes, and what a change of one
cluster costs. Wall time is that of the whole machine; `cpu_ms` is the scheduler's own processor time per decision.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from schemas.codec import Known
from tests.bench.bench_scheduler_ground import Ground, Stalls, binding_fact, cluster_fact, key_of, placement_fact

QUIET = 1.0


def emit(name: str, value: float, unit: str, **about: object) -> None:
    """Print one figure."""
    print(json.dumps({"name": name, "value": round(value, 3), "unit": unit, **about}), flush=True)


async def through(ground: Ground, clusters: int, standing: int, changes: int) -> None:
    """Decide a backlog, then changes of replicas that come in as fast as the log takes them."""
    rng = random.Random(clusters)
    about = {"clusters": clusters, "bindings": standing}
    await ground.append(cluster_fact(number, rng) for number in range(clusters))
    replicas = {number: rng.randint(1, 60) for number in range(standing)}
    last = await ground.append(binding_fact(number, count) for number, count in replicas.items())
    await ground.start_scheduler()
    begun, used = time.perf_counter(), ground.cpu()
    already = max(0, await ground.position() - last - 1)
    ended = await ground.until(last + 1 + standing)
    rest = standing - already
    emit("log_backlog_per_second", rest / (ended - begun), "decisions/s", **about)
    emit("log_backlog_cpu_ms", (ground.cpu() - used) * 1000 / rest, "ms", **about)
    await _settled(ground)
    chosen = rng.sample(range(standing), min(changes, standing))
    position, used, begun = await ground.position(), ground.cpu(), time.perf_counter()
    explained = (await ground.explained.identity()).last_seq
    await ground.append(binding_fact(number, replicas[number] + 1 + number % 7, 2) for number in chosen)
    ended = await ground.until(position + 2 * len(chosen))
    emit("log_decisions_per_second", len(chosen) / (ended - begun), "decisions/s", **about)
    emit("log_decision_cpu_ms", (ground.cpu() - used) * 1000 / len(chosen), "ms", **about)
    decided = 0
    async for message in ground.facts.read(["placement.>"], position + 1):
        decided += b'"PlacementDecided.v1"' in message.data
    emit("log_decided", decided, "PlacementDecided", asked=len(chosen), **about)
    await _settled(ground)
    emit("log_decision_and_explanation_cpu_ms", (ground.cpu() - used) * 1000 / len(chosen), "ms", **about)
    sizes = [len(message.data) async for message in ground.explained.read(["explained.>"], explained + 1)]
    emit("log_explained", len(sizes), "explanations", asked=len(chosen), largest=max(sizes, default=0), **about)
    emit("log_scheduler_pss", ground.memory(), "MiB", **about)


async def scale(ground: Ground, clusters: int, standing: int) -> None:
    """Memory, start and the changes of one cluster, with many bindings that are placed."""
    rng = random.Random(clusters)
    about = {"clusters": clusters, "bindings": standing}
    made = [cluster_fact(number, rng) for number in range(clusters)]
    names = [fact.name for fact in made]
    await ground.append(made)

    def facts() -> Iterator[Known]:
        for number in range(standing):
            replicas = rng.randint(3, 60)
            yield binding_fact(number, replicas, few=True)
            yield placement_fact(number, replicas, names, rng)

    began = time.perf_counter()
    await ground.append(facts())
    emit("scale_fill_seconds", time.perf_counter() - began, "s", **about)
    emit("scale_start_seconds", await ground.start_scheduler(), "s", **about)
    await _settled(ground)
    emit("scale_recovered_cpu_seconds", ground.cpu(), "s", **about)
    emit("scale_scheduler_pss", ground.memory(), "MiB", **about)
    # Only what summarises its use; then a label, which every placement that selects by labels looks at.
    used = made[1]
    await _change(ground, "capacity", cluster_fact(1, random.Random(7)), about)
    await _change(ground, "label", cluster_fact(1, random.Random(7), tier="gold"), about)
    await _change(ground, "back", used, about)
    emit("scale_scheduler_pss_after", ground.memory(), "MiB", **about)
    position, begun = await ground.position(), time.perf_counter()
    await ground.append([binding_fact(2, 61, 2)])
    ended = await ground.until(position + 2)
    emit("scale_one_decision_ms", (ended - begun) * 1000, "ms", key=str(key_of(2)), **about)


async def _change(ground: Ground, what: str, fact: Known, about: dict[str, int]) -> None:
    """Append one change of a cluster and follow what it sets off."""
    await _settled(ground)
    decisions, position = ground.metric("fleetlog_decisions_total"), await ground.position()
    used, begun = ground.cpu(), time.perf_counter()
    async with Stalls(ground) as stalls:
        await ground.append([fact])
        ended = await _quiet(ground)
    used, asked = ground.cpu() - used, time.perf_counter()
    owes = await asyncio.to_thread(_owes, ground)
    emit(f"scale_{what}_scrape_ms", (time.perf_counter() - asked) * 1000, "ms", owes=owes, **about)
    looked = ground.metric("fleetlog_decisions_total") - decisions
    found = {**about, "looked_at": round(looked), "appended": await ground.position() - position - 1}
    emit(f"scale_{what}_change_seconds", ended - begun, "s", **found)
    emit(f"scale_{what}_change_cpu_seconds", used, "s", **found)
    emit(f"scale_{what}_longest_stall_ms", stalls.longest * 1000, "ms", asked=stalls.asked, **found)


async def _settled(ground: Ground) -> float:
    """Wait until the scheduler is quiet and owes nothing; since when it was quiet."""
    while True:
        since = await _quiet(ground)
        if not await asyncio.to_thread(_owes, ground):
            return since


async def _quiet(ground: Ground) -> float:
    """Wait until the scheduler used no processor time to speak of for a second; when that second began."""
    since, used = time.perf_counter(), ground.cpu()
    while time.perf_counter() - since < QUIET:
        await asyncio.sleep(0.05)
        now = ground.cpu()
        # Heartbeats and the questions of this measure cost a little, too.
        if now - used > 0.3 * (time.perf_counter() - since) + 0.03:
            since, used = time.perf_counter(), now
    return since


def _owes(ground: Ground) -> bool:
    """Whether anything waits to be folded, decided or stored."""
    found = ground.metrics()
    return any(found[f"fleetlog_{name}"] for name in ("dirty_keys", "in_flight_keys", "log_lag"))


async def measure(asked: argparse.Namespace, directory: Path) -> None:
    """One ground per combination of clusters and bindings."""
    runs = [(through, asked.clusters, number, asked.changes) for number in asked.bindings] if not asked.scale else []
    for number, (work, *arguments) in enumerate(runs or [(scale, asked.clusters, asked.scale)]):
        place = directory / str(number)
        place.mkdir()
        ground = Ground(place)
        await ground.open()
        try:
            await work(ground, *arguments)
        finally:
            await ground.close()


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--bindings", type=int, nargs="+", default=[1_000, 20_000], help="standing bindings")
    parser.add_argument("--changes", type=int, default=1_000, help="bindings that change their replicas")
    parser.add_argument("--scale", type=int, default=0, help="measure memory and cluster changes with so many instead")
    parser.add_argument("--dir", default="", help="where the log's files go")
    asked = parser.parse_args()
    if asked.dir:
        asyncio.run(measure(asked, Path(asked.dir)))
    else:
        with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
            asyncio.run(measure(asked, Path(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

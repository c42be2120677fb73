"""Measures two instances of the services that share their work: one that works beside one that stands by, then both.

`python -m tests.bench.bench_groups --pairs 3`; every pair starts both installations anew, one after the other. One JSON
line per figure; those of the measures carry `groups`, and the last lines compare the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from schemas.codec import decode
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import SHARED, group_name
from schemas.subjects import lease
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from tests.bench.measures import FIGURES, Bench, emit
from tests.bench.processes import cpu_seconds
from tests.e2e.fleet import Fleet
from tests.faults.standbys import Standbys

COMPARED: Final = (
    "copies_delivered_per_second",
    "status_summed_per_second",
    "submit_to_delivered_ms_median",
    "submit_to_delivered_ms_p99",
    "submit_to_status_ms_median",
    "all_instances_cpu_ms_per_copy",
)
_PATIENCE: Final = 60.0


async def _led(url: str, groups: int) -> None:
    """Wait until two instances of every shared service lead, or one where the work is not divided."""
    connection = await Connection.open(url)
    try:
        facts, deadline = JetStreamLog(connection, "FACTS"), time.monotonic() + _PATIENCE
        while True:
            leaders = []
            for service in SHARED:
                last = [await facts.last(lease(group_name(service, index))) for index in range(groups)]
                events = [decode(message.subject, message.data) for message in last if message is not None]
                leaders.append({event.instance for event in events if isinstance(event, LeaseTaken)})
            if all(len(found) == groups for found in leaders):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the groups are led by {leaders}")
            await asyncio.sleep(0.1)
    finally:
        await connection.close()


def play(groups: int, pair: int, workloads: int, singles: int) -> dict[str, float]:
    """The figures of one installation with two instances of the shared services."""
    variables = {"FLEETLOG_SHARD_GROUPS": str(groups)}
    with tempfile.TemporaryDirectory(prefix="fleetlog-groups-") as directory:
        fleet = Fleet(Path(directory), ["--nodes", "12"], variables)
        fleet.start()
        standbys = Standbys(fleet, 2.0, variables)
        try:
            standbys.start(SHARED)
            first = len(FIGURES)

            async def body() -> None:
                await _led(fleet.installation.log_access, groups)
                await _with(fleet, lambda bench: bench.latency(singles))
                before = sum(map(cpu_seconds, standbys.pids))
                await _with(fleet, lambda bench: bench.throughput(workloads))
                used = sum(map(cpu_seconds, standbys.pids)) - before
                own = next(f["value"] for f in FIGURES[first:] if f["name"] == "own_cpu_ms_per_copy_to_rest")
                each = used * 1000 / (workloads * len(fleet.members))
                emit("all_instances_cpu_ms_per_copy", own + each, "ms", second_instances=round(each, 2))

            import uvloop

            uvloop.run(body())
        finally:
            standbys.stop()
            fleet.stop()
    for figure in FIGURES[first:]:
        figure |= {"groups": groups, "pair": pair}
    return {str(figure["name"]): float(figure["value"]) for figure in FIGURES[first:]}


async def _with(fleet: Fleet, work: Callable[[Bench], Awaitable[None]]) -> None:
    bench = Bench(fleet.layout)
    await bench.open()
    try:
        await work(bench)
    finally:
        await bench.close()


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="just bench-groups", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--workloads", type=int, default=100, help="Deployments of the burst, for three members")
    parser.add_argument("--singles", type=int, default=20, help="Deployments one after the other")
    asked = parser.parse_args()
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for pair in range(asked.pairs):
        # Which one comes first changes with every pair.
        for groups in ((1, 2), (2, 1))[pair % 2]:
            for name, value in play(groups, pair, asked.workloads, asked.singles).items():
                found[name, groups].append(value)
    for name in COMPARED:
        one, two = (statistics.median(found[name, groups]) for groups in (1, 2))
        emit(f"groups_{name}_ratio", two / one if one else 0.0, "", one=found[name, 1], two=found[name, 2])
    return 0


if __name__ == "__main__":
    sys.exit(main())

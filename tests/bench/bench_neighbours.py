"""What one hostile member costs the others: their delivery and the memory of the process, for each kind of hostility.

    python -m tests.bench.bench_neighbours [SECONDS [KIND...]]

One process has a lane, a view and a prober for an honest member and for a hostile one, as the executor, the estimator
and the cluster monitor have. The members run in processes of their own. For SECONDS (8) of each kind ConfigMaps are
delivered to the honest member one by one; a line of JSON tells the median, the longest, the longest time for which the
loop was held, and the memory at its highest, each also as a multiple of the undisturbed figure.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog

from schemas.manifest import Manifest
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings
from services._kit.kube.client import KubeClient
from services._kit.members.node_informer import MemberView
from services._rules.capacity.replica_estimate import Picture
from services.member_sim.app import run_member
from services.member_sim.settings import MemberSettings
from tests.integration.delivery.conftest import Desk
from tests.support.hostile_server import MODES, HostileServer, hostile_server

KINDS = ("configmaps", "secrets", "services", "serviceaccounts", "persistentvolumeclaims")
OBJECTS = 200
CONFIG_MAPS = "/api/v1/configmaps"


def honest_process(pipe: Connection, directory: str) -> None:
    """A simulated member; tells its kubeconfig."""

    async def main() -> None:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        settings = MemberSettings(name="honest", nodes=1, data_dir=Path(directory) / "honest")
        running = asyncio.create_task(run_member(settings, ready.set_result, asyncio.Event()))
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        pipe.send(str((await ready).kubeconfig))
        await running

    quiet()
    asyncio.run(main())


def hostile_process(pipe: Connection) -> None:
    """A member that behaves as it is told through the pipe."""

    async def main() -> None:
        async with hostile_server() as server:
            prepare(server)
            pipe.send(server.url)
            while True:
                mode = await asyncio.to_thread(pipe.recv)
                if mode:
                    server.turn(mode)
                    server.cut()
                else:
                    server.heal()
                pipe.send(len(server.requests))

    quiet()
    asyncio.run(main())


def prepare(server: HostileServer) -> None:
    """Give it objects of ours."""
    verbs = ["list", "watch", "get", "create", "update", "delete"]
    kinds = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service"}
    kinds |= {"serviceaccounts": "ServiceAccount", "persistentvolumeclaims": "PersistentVolumeClaim"}
    server.resources = {
        "v1": [{"name": name, "kind": kind, "namespaced": True, "verbs": verbs} for name, kind in kinds.items()]
    }
    server.objects = {
        f"/api/v1/{plural}": [
            {"apiVersion": "v1", "kind": kinds[plural], "metadata": {**metadata(number), "resourceVersion": "5"}}
            for number in range(OBJECTS)
        ]
        for plural in KINDS
    }


def metadata(number: int) -> Manifest:
    """Of one object of ours."""
    return {"name": f"o{number}", "namespace": "default"}


def quiet() -> None:
    """Say nothing of what goes wrong: that is the point."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class Memory:
    """The memory of this process at its highest since the last reset, in MiB."""

    def reset(self) -> None:
        """Begin anew."""
        Path("/proc/self/clear_refs").write_text("5")

    def highest(self) -> float:
        """Since the last reset."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Held:
    """For how long the loop was held at the longest, in milliseconds."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        """Look every millisecond."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, 1000 * (time.perf_counter() - before) - 1)


async def deliver(lane: Lane, desk: Desk, number: int) -> float:
    """Milliseconds until a change is delivered and reported."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(number % 50), "data": {"n": str(number)}}
    began = time.perf_counter()
    key = desk.give(manifest)
    seq = desk.works[key][1]
    lane.look_at(key)
    await desk.until(key, lambda event: event.work_seq == seq and event.applied)
    return 1000 * (time.perf_counter() - began)


async def phase(lane: Lane, desk: Desk, held: Held, memory: Memory, seconds: float, start: int) -> dict[str, float]:
    """Deliver for a while; the figures of it."""
    held.longest = 0.0
    memory.reset()
    times: list[float] = []
    cpu, began = time.process_time(), time.perf_counter()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        times.append(await deliver(lane, desk, start + len(times)))
        await asyncio.sleep(0.02)
    return {
        "median_ms": statistics.median(times),
        "longest_ms": max(times),
        "loop_held_ms": held.longest,
        "memory_mib": memory.highest(),
        "cpu_percent": 100 * (time.process_time() - cpu) / (time.perf_counter() - began),
    }


async def main(seconds: float, modes: Sequence[str]) -> None:
    """Measure every kind, one after the other."""
    quiet()
    context = multiprocessing.get_context("spawn")
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        told: list[Any] = []
        pipes: list[Connection] = []
        for target, arguments in ((honest_process, (directory,)), (hostile_process, ())):
            ours, theirs = context.Pipe()
            process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
            process.start()
            stack.callback(process.terminate)
            told.append(await asyncio.to_thread(ours.recv))
            pipes.append(ours)
        kubeconfig, url = told
        held, memory = Held(), Memory()
        watcher = asyncio.create_task(held.run())
        stack.callback(watcher.cancel)

        async def open_hostile(*_: object) -> KubeClient:
            return KubeClient.from_token(url, "token")

        desk, other = Desk("honest"), Desk("hostile")
        lane = Lane("honest", lambda: KubeClient.from_kubeconfig(kubeconfig), desk.source, LaneSettings())
        hostile = Lane("hostile", open_hostile, other.source, LaneSettings())
        view = MemberView("hostile", open_hostile, Picture(), lambda: None)
        lane.start()
        hostile.start()
        view.start()
        stack.push_async_callback(lane.close)
        stack.push_async_callback(hostile.close)
        stack.push_async_callback(view.close)
        client = await open_hostile()
        stack.push_async_callback(client.close)

        async def probe() -> None:
            while True:
                await probe(client, "hostile", [], 0.0)
                await asyncio.sleep(2.0)

        prober = asyncio.create_task(probe())
        stack.callback(prober.cancel)
        for plural in KINDS:
            kind = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service"}.get(plural)
            for number in range(OBJECTS):
                if kind is not None:
                    key = other.give({"apiVersion": "v1", "kind": kind, "metadata": metadata(number)})
                    hostile.look_at(key)
        await phase(lane, desk, held, memory, 3.0, 0)
        number = 0
        for mode in modes:
            number += 20_000
            base = await phase(lane, desk, held, memory, seconds / 2, number)
            before = await asyncio.to_thread(tell, pipes[1], mode)
            found = await phase(lane, desk, held, memory, seconds, number + 10_000)
            requests = await asyncio.to_thread(tell, pipes[1], "") - before
            print(json.dumps({"mode": mode, **compared(found, base), "requests": requests}), flush=True)
            await asyncio.sleep(1.0)


def compared(found: dict[str, float], base: dict[str, float]) -> dict[str, float]:
    """Both figures and how many times the undisturbed one that is."""
    shown = {name: round(value, 1) for name, value in found.items()}
    shown |= {f"{name}_undisturbed": round(base[name], 1) for name in ("median_ms", "memory_mib", "cpu_percent")}
    return shown | {f"{name}_times": round(found[name] / base[name], 2) for name in ("median_ms", "memory_mib")}


def tell(pipe: Connection, mode: str) -> int:
    """Have the hostile member behave in a mode from now on; how many requests it has had."""
    pipe.send(mode)
    answer: int = pipe.recv()
    return answer


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 8.0, sys.argv[2:] or MODES))

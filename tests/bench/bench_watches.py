"""Measures watches of the global proxy that share a feed: events, processor time, memory; one JSON line each.

Members are not there: changes are packed and put into the index as followers do it, so that what is measured is search
alone. Clients are processes of their own that count the lines they get.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import multiprocessing
import resource
import selectors
import socket
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Final

import structlog

from services.search.union.version_map import VersionMap
from tests.bench.bench_search import memory
from tests.bench.measures import emit
from tests.support.feed_world import PATH, FeedWorld
from tests.support.waiting import eventually

_RECEIVED: Final = 1 << 18


def clients(port: int, count: int, target: str, pipe: Connection) -> None:
    """Open watches, say when all have begun, and count the events of each until told to stop."""
    selector = selectors.DefaultSelector()
    seen: dict[socket.socket, int] = {}
    for _ in range(count):
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += made.recv(4096)
        assert b" 200 " in head.split(b"\r\n", 1)[0], head
        made.setblocking(False)
        selector.register(made, selectors.EVENT_READ)
        seen[made] = 0
    pipe.send(count)
    while not pipe.poll():
        for key, _ in selector.select(0.1):
            found = key.fileobj
            assert isinstance(found, socket.socket)
            data = found.recv(_RECEIVED)
            if not data:
                selector.unregister(found)
            seen[found] += data.count(b'"type":"')
    pipe.send(list(seen.values()))


def cpu() -> float:
    """Seconds of processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def changes(world: FeedWorld, seconds: float, pause: float, data: Mapping[str, str]) -> tuple[int, float]:
    """One change of each member and pause; how many, and the processor time of making them."""
    loop = asyncio.get_running_loop()
    made, used, until, turn = 0, 0.0, loop.time() + seconds, loop.time()
    while loop.time() < until:
        began = time.process_time()
        for cluster in world.clusters:
            world.put(cluster, f"m{made % 50}", **data)
            made += 1
        used += time.process_time() - began
        turn += pause
        await asyncio.sleep(max(0.0, turn - loop.time()))
    return made, used


async def measured(arguments: argparse.Namespace) -> None:
    """Watch, change, count."""
    async with AsyncExitStack() as stack:
        world = FeedWorld(arguments.members, watchers=arguments.watchers)
        await world.serve(stack)
        versions = {cluster: str(version) for cluster, version in world.shelf.history.versions.items()}
        target = f"{PATH}?watch=true&resourceVersion={VersionMap(versions).text()}"
        port = int(world.url.rpartition(":")[2])
        gc.collect()
        before = memory("VmRSS")
        pipes: list[Connection] = []
        each = arguments.watchers // arguments.processes
        context = multiprocessing.get_context("spawn")
        for _ in range(arguments.processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=clients, args=(port, each, target, theirs), daemon=True)
            process.start()
            stack.callback(process.terminate)
            pipes.append(ours)
        begun = [await asyncio.to_thread(pipe.recv) for pipe in pipes]
        watchers = sum(begun)
        idle = memory("VmRSS")
        used = cpu()
        began = time.perf_counter()
        made, making = await changes(world, arguments.seconds, arguments.pause / 1000, {"x": "y" * arguments.bytes})
        took, used = time.perf_counter() - began, cpu() - used
        await asyncio.sleep(arguments.drain)
        for pipe in pipes:
            pipe.send(True)
        seen = [count for pipe in pipes for count in await asyncio.to_thread(pipe.recv)]
        world.shelf.fell_silent(world.clusters[0], "the bench is over")
        await eventually(lambda: world.shelf.audience is None)
        size = {"watchers": watchers, "members": arguments.members, "changes": made}
        whole = sum(count == made for count in seen)
        name = "watches that share a feed"
        emit(f"{name}: events delivered", sum(seen) / took, "1/s", complete=whole, lowest=min(seen), **size)
        emit(f"{name}: changes taken in", made / took, "1/s", **size)
        emit(f"{name}: CPU of a delivered event", 1e6 * (used - making) / max(sum(seen), 1), "us", **size)
        emit(f"{name}: CPU", 100 * used / took, "% of a core", of_changes=round(100 * making / took, 1), **size)
        emit(f"{name}: memory of a watch", (idle - before) / watchers / 1024, "KiB", **size)
        emit(
            f"{name}: memory of the process",
            memory("VmRSS") / (1 << 20),
            "MiB",
            requests=len(world.members.requests),
            **size,
        )


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, default=500)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--pause", type=float, default=10.0, help="milliseconds between two changes of each member")
    parser.add_argument("--bytes", type=int, default=200, help="of data of an object")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--drain", type=float, default=5.0, help="seconds for clients to take what is on its way")
    parser.add_argument("--processes", type=int, default=2, help="that clients run in")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(measured(parser.parse_args()))


if __name__ == "__main__":
    main()

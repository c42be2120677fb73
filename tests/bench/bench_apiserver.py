"""Measures the API server alone, over a log that syncs every write: one JSON line per figure.

The server and the log are processes of their own; the load comes from this one, and long lists from further ones.
Memory is the resident memory of the server's process and its children.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.measures import emit, percentile
from tests.bench.rawhttp import Place, Tally, drain, request
from tests.natsserver import Server, make_server
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved

MEASURES: Final = ("writes", "pages", "watches", "hostile", "memory", "lists", "zipped")
MASTER: Final = "mastertoken"
TENANT: Final = "benchtoken"
TOKENS: Final = f'{MASTER},admin,admin,"system:masters"\n{TENANT},bench,bench,"benchers"\n'
NAMESPACE: Final = "bench"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
NEIGHBOUR: Final = "/api/v1/namespaces/kube-system/configmaps/neighbour"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/"
RULES: Final = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
PAGE: Final = 500
_ROOT: Final = Path(__file__).resolve().parents[2]
_READY_SECONDS: Final = 300
_LOOK: Final = 0.01


def options(arguments: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="just bench-apiserver", description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000, help="ConfigMaps of the measures of memory and lists")
    parser.add_argument("--size", type=int, default=1024, help="bytes of data in each")
    parser.add_argument("--writes", type=int, default=10_000, help="creates that are timed, and objects of the pages")
    parser.add_argument("--reads", type=int, default=30_000, help="gets that are timed")
    parser.add_argument("--clients", type=int, default=64, help="clients that write and read at once")
    parser.add_argument("--watchers", type=int, default=50, help="watches of the watch measure")
    parser.add_argument("--events", type=int, default=1000, help="creates that they see")
    parser.add_argument("--lists", type=int, default=4, help="unpaged lists at once")
    parser.add_argument("--authorization", default="AlwaysAllow", choices=("AlwaysAllow", "RBAC"))
    parser.add_argument("--only", action="append", choices=MEASURES, help="one measure; may be repeated")
    parser.add_argument("--plain", action="store_true", help="HTTP without TLS")
    return parser.parse_args(arguments)


class Started:
    """One API server process over a log."""

    def __init__(self, directory: Path, log: Server, asked: argparse.Namespace) -> None:
        self._directory = directory
        self._log = log
        self._reserved = Reserved()
        self._process: subprocess.Popen[str] | None = None
        self._authorization: str = asked.authorization
        self._tls = not asked.plain
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._reserved.number}"
        (directory / "tokens.csv").write_text(TOKENS)

    def start(self) -> float:
        """Start; seconds until it is ready."""
        settings = {
            "FLEETLOG_APISERVER_DATA_DIR": str(self._directory / "data"),
            "FLEETLOG_APISERVER_PORT": str(self._reserved.number),
            "FLEETLOG_APISERVER_TOKEN_FILE": str(self._directory / "tokens.csv"),
            "FLEETLOG_APISERVER_AUTHORIZATION": self._authorization,
            "FLEETLOG_APISERVER_TLS": "1" if self._tls else "0",
            "FLEETLOG_NATS_URL": self._log.url,
            "FLEETLOG_LOG_LEVEL": "warning",
        }
        began = time.perf_counter()
        with (self._directory / "apiserver.log").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.apiserver"],
                cwd=_ROOT,
                env={**os.environ, **settings},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        ends_with_us(self._process)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(
                f"the API server did not start: {line!r}, {(self._directory / 'apiserver.log').read_text()}"
            )
        return time.perf_counter() - began

    def stop(self) -> None:
        """Stop in good order."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=_READY_SECONDS)

    def memory(self) -> float:
        """Resident MB now."""
        assert self._process is not None
        return sum(map(_resident, _family(self._process.pid)))

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        assert self._process is not None
        return sum(map(_cpu, _family(self._process.pid)))


def _family(pid: int) -> Iterator[int]:
    """A process and its children."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from _family(int(child))


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """The measures on one started server."""

    def __init__(self, asked: argparse.Namespace, server: Started) -> None:
        self._asked = asked
        self._server = server
        self._place = Place(server.url, TENANT if asked.authorization == "RBAC" else MASTER)
        self._master = Place(server.url, MASTER)
        self._random = random.Random(7)
        self._numbers = itertools.count()

    def body(self, name: str) -> bytes:
        """A ConfigMap whose data does not compress better than that of others."""
        data = {"value": self._random.randbytes(self._asked.size // 2).hex()}
        metadata = {"name": name, "labels": {"app": name}}
        return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data})

    def _creates(self, many: int) -> list[bytes]:
        names = (f"c-{number:07}" for number in itertools.islice(self._numbers, many))
        return [request("POST", CONFIG_MAPS, self._place.token, self.body(name)) for name in names]

    async def _play(self, requests: list[bytes] | Iterator[bytes]) -> float:
        """Seconds that requests take from all clients; raises RuntimeError unless every answer is 2xx."""
        seconds, statuses = await self._place.play(iter(requests), self._asked.clients)
        self._refuse(statuses)
        return seconds

    @staticmethod
    def _refuse(statuses: Counter[int]) -> None:
        if any(code >= 300 for code in statuses):
            raise RuntimeError(f"not every request was answered well: {dict(statuses)}")

    async def prepare(self) -> None:
        """Namespace, neighbour, and under RBAC the role of the tenant."""
        for path, body in self._ground():
            _, statuses = await self._master.play(iter([request("POST", path, MASTER, msgspec.json.encode(body))]), 1)
            self._refuse(statuses)
        for _ in range(500):
            # A role counts a moment after it was written.
            _, statuses = await self._place.play(iter([request("GET", CONFIG_MAPS, self._place.token)]), 1)
            if set(statuses) == {200}:
                return
            await asyncio.sleep(_LOOK)
        raise RuntimeError("the role of the tenant does not count")

    def _ground(self) -> Iterator[tuple[str, dict[str, object]]]:
        yield "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}
        yield NEIGHBOUR.rpartition("/")[0], {"metadata": {"name": "neighbour"}}
        if self._asked.authorization == "RBAC":
            group = "rbac.authorization.k8s.io"
            reference = {"apiGroup": group, "kind": "ClusterRole", "name": "bench"}
            subject = {"apiGroup": group, "kind": "Group", "name": "benchers"}
            yield f"{ROLES}clusterroles", {"metadata": {"name": "bench"}, "rules": RULES}
            binding = {"metadata": {"name": "bench"}, "roleRef": reference, "subjects": [subject]}
            yield f"{ROLES}clusterrolebindings", binding

    async def writes(self) -> None:
        """Creates, then gets, from all clients."""
        asked, server = self._asked, self._server
        bodies, before = self._creates(asked.writes), server.cpu()
        seconds = await self._play(bodies)
        each = (server.cpu() - before) / asked.writes * 1000
        emit("creates_per_second", asked.writes / seconds, "1/s", clients=asked.clients, cpu_ms_each=round(each, 3))
        chosen = random.Random(3)
        gets = [
            request("GET", f"{CONFIG_MAPS}/c-{chosen.randrange(asked.writes):07}", self._place.token)
            for _ in range(asked.reads)
        ]
        before = server.cpu()
        seconds = await self._play(gets)
        each = (server.cpu() - before) / asked.reads * 1000
        emit("gets_per_second", asked.reads / seconds, "1/s", clients=asked.clients, cpu_ms_each=round(each, 3))

    def pages(self) -> None:
        """Pages of 500 of what was written."""
        connection = self._place.connection()
        firsts, others, rounds = [], [], 7
        for _ in range(rounds):
            path, number = f"{CONFIG_MAPS}?limit={PAGE}", 0
            while path:
                began = time.perf_counter()
                _, body = self._place.get(path, connection)
                (others if number else firsts).append((time.perf_counter() - began) * 1000)
                token = msgspec.json.decode(body)["metadata"].get("continue")
                path, number = f"{CONFIG_MAPS}?limit={PAGE}&continue={token}" if token else "", number + 1
        objects = self._asked.writes
        emit("first_page_ms", statistics.median(firsts), "ms", objects=objects, limit=PAGE)
        if others:
            emit("next_page_ms", statistics.median(others), "ms", objects=objects, limit=PAGE)

    async def watches(self) -> None:
        """Creates that many watches see."""
        asked = self._asked
        wanted = asked.events * asked.watchers
        seen = Tally(wanted)
        _, body = self._place.get(f"{CONFIG_MAPS}?limit=1", self._place.connection())
        revision = msgspec.json.decode(body)["metadata"]["resourceVersion"]
        path = f"{CONFIG_MAPS}?watch=1&resourceVersion={revision}"
        open_watches = await self._place.watch(path, asked.watchers, seen)
        bodies = self._creates(asked.events)
        began = time.perf_counter()
        await self._play(bodies)
        await seen.complete.wait()
        seconds = time.perf_counter() - began
        for transport in open_watches:
            transport.abort()
        emit("watch_events_per_second", wanted / seconds, "1/s", watchers=asked.watchers, creates=asked.events)

    async def fill(self) -> None:
        """Write what is missing for the measures with many objects."""
        _, body = self._place.get(f"{CONFIG_MAPS}?limit=1", self._place.connection())
        found = msgspec.json.decode(body)
        present = len(found["items"]) + found["metadata"].get("remainingItemCount", 0)
        taken = next(self._numbers)
        self._numbers = itertools.count(taken)
        while present < self._asked.objects:
            many = min(5000, self._asked.objects - present)
            await self._play(self._creates(many))
            present += many

    def memory(self) -> None:
        """Memory with all objects, and a new start with them."""
        objects = self._asked.objects
        emit("rss_mb_filled", self._server.memory(), "MB", objects=objects)
        self._server.stop()
        emit("restart_seconds", self._server.start(), "s", objects=objects)
        time.sleep(1)
        emit("rss_mb_restarted", self._server.memory(), "MB", objects=objects)

    async def lists(self, *, zipped: bool = False) -> None:
        """Unpaged lists of everything at once, beside a neighbour who reads one object again and again."""
        asked, loop = self._asked, asyncio.get_running_loop()
        connection = self._place.connection()
        waits: list[float] = []
        quiet = self._neighbour(connection, 100)
        peak, before, cpu = 0.0, self._server.memory(), self._server.cpu()
        with ProcessPoolExecutor(asked.lists, mp_context=get_context("spawn")) as pool:
            await asyncio.gather(*(loop.run_in_executor(pool, time.sleep, 0.5) for _ in range(asked.lists)))
            arguments = (self._server.url, self._place.token, CONFIG_MAPS, zipped)
            reading = [loop.run_in_executor(pool, drain, *arguments) for _ in range(asked.lists)]
            while not all(item.done() for item in reading):
                waits += self._neighbour(connection, 1)
                peak = max(peak, self._server.memory())
                await asyncio.sleep(_LOOK)
            found = [await item for item in reading]
        name = "zipped_lists" if zipped else "lists"
        more = {"objects": asked.objects, "lists": asked.lists}
        emit(f"{name}_rss_mb_peak", peak, "MB", **more, before=round(before, 1))
        worst = {"median": round(statistics.median(waits), 1), "p99": round(percentile(waits, 0.99), 1)}
        emit(f"{name}_neighbour_ms_worst", max(waits), "ms", **more, **worst, quiet_worst=round(max(quiet), 1))
        seconds = max(seconds for _, seconds in found)
        sent = sum(size for size, _ in found) / 1e6
        used = round(self._server.cpu() - cpu, 2)
        emit(f"{name}_seconds", seconds, "s", **more, mb_sent=round(sent, 1), cpu_seconds=used)

    async def hostile(self) -> None:
        """Requests that take much work, one after the other, beside a neighbour who reads one object."""
        connection = self._place.connection()
        for name, path, body in hostile_requests():
            waits: list[float] = []
            peak = self._server.memory()
            sent = [request("POST", path, MASTER, msgspec.json.encode(body))]
            working = asyncio.create_task(self._master.play(iter(sent), 1))
            while not working.done():
                waits += await asyncio.to_thread(self._neighbour, connection, 1)
                peak = max(peak, self._server.memory())
                await asyncio.sleep(_LOOK)
            seconds, statuses = await working
            self._refuse(statuses)
            more = {"request": name, "seconds": round(seconds, 2)}
            emit("hostile_neighbour_ms_worst", max(waits), "ms", median=round(statistics.median(waits), 1), **more)
            emit("hostile_rss_mb_peak", peak, "MB", **more)

    def _neighbour(self, connection: http.client.HTTPConnection, times: int) -> list[float]:
        waits = []
        for _ in range(times):
            began = time.perf_counter()
            self._master.get(NEIGHBOUR, connection)
            waits.append((time.perf_counter() - began) * 1000)
        return waits


def hostile_requests() -> Iterator[tuple[str, str, dict[str, object]]]:
    """A name, the path and the body of each request that takes much work."""
    containers = [{"name": f"c{number}", "image": "i"} for number in range(15_000)]
    large = {"metadata": {"name": "large"}, "spec": {"containers": containers}}
    yield "pod of 15,000 containers", f"/api/v1/namespaces/{NAMESPACE}/pods", large
    field = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}
    fields = {"type": "object", "properties": {f"field{number}": field for number in range(12_000)}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"}
    spec = {"group": "bench.example.io", "scope": "Namespaced", "names": names, "versions": [version]}
    wide = {"metadata": {"name": "wides.bench.example.io"}, "spec": spec}
    yield "schema of 12,000 fields", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", wide


async def measure(asked: argparse.Namespace, server: Started) -> None:
    """All measures that are asked for."""
    chosen = set(asked.only or MEASURES)
    load = Load(asked, server)
    await load.prepare()
    emit("rss_mb_empty", server.memory(), "MB")
    if chosen & {"writes", "pages"}:
        await load.writes()
    if "pages" in chosen:
        load.pages()
    if "watches" in chosen:
        await load.watches()
    if "hostile" in chosen:
        await load.hostile()
    if chosen & {"memory", "lists", "zipped"}:
        await load.fill()
    if "memory" in chosen:
        load.memory()
    if "lists" in chosen:
        await load.lists()
    if "zipped" in chosen:
        await load.lists(zipped=True)


def main() -> int:
    """Entry point."""
    import uvloop

    asked = options(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as name:
        directory = Path(name)
        log = make_server(directory)
        if log is None:
            print("no nats-server was found", file=sys.stderr)
            return 1
        log.start()
        server = Started(directory, log, asked)
        try:
            emit("start_seconds", server.start(), "s", authorization=asked.authorization)
            uvloop.run(measure(asked, server))
        finally:
            server.stop()
            log.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

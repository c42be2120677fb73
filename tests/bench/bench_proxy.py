"""What a request costs that goes to a member through the control plane, beside a direct one.

    python -m tests.bench.bench_proxy [REQUESTS]

An installation with a push and a pull member. For each way (direct, push, pull) REQUESTS (500) reads of one object, one
after the other, and as many changes of an object at the member, each until a watch that goes this way told of it. Then
100 MiB both ways through a connection that switched its protocol. A line of JSON tells the median and the 99th
percentile in milliseconds; for the stream its rate and what the gateway and the control plane grew by.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from services.cli.common.layout import CONTROL
from tests.bench.processes import pss_mib
from tests.e2e.fleet import Fleet
from tests.support.raw_member import RawMember, raw_member

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
OBJECT = "/api/v1/namespaces/default"
STREAM = 100 << 20
WARM = 20


class Door:
    """One server as a kubeconfig describes it."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self.server: str = cluster["server"]
        self.headers: dict[str, str] = {}
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                for part in ("client-certificate-data", "client-key-data"):
                    pair.write(base64.b64decode(user[part]) + b"\n")
                pair.flush()
                self.tls.load_cert_chain(pair.name)
        else:
            self.headers["Authorization"] = f"Bearer {user['token']}"

    async def call(
        self, session: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str
    ) -> None:
        """One request, read to its end; raises for a refusal."""
        async with session.request(
            method,
            self.server + path,
            json=body,
            ssl=self.tls,
            headers={**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}},
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")


def told(measure: str, **figures: object) -> None:
    print(json.dumps({"measure": measure, **figures}), flush=True)


async def latency(measure: str, door: Door, path: str, count: int) -> None:
    """Reads of one object, one after the other."""
    async with aiohttp.ClientSession() as session:
        seconds = []
        for _ in range(count + WARM):
            began = time.perf_counter()
            await door.call(session, "GET", path)
            seconds.append(time.perf_counter() - began)
    told_times(f"get {measure}", seconds)


def told_times(measure: str, seconds: list[float]) -> None:
    """The line about times of which the first are not counted."""
    found = sorted(1000 * value for value in seconds[WARM:])
    told(measure, median_ms=round(statistics.median(found), 2), p99_ms=round(found[int(len(found) * 0.99)], 2))


async def watched(measure: str, member: Door, door: Door, prefix: str, count: int) -> None:
    """Changes of one object at the member itself, one after the other, and when a watch told of each."""
    name = f"watched-{measure}"
    path = f"{OBJECT}/configmaps"
    async with aiohttp.ClientSession() as session:
        await member.call(session, "POST", path, {"metadata": {"name": name}, "data": {"n": "-1"}})
        selected = f"{prefix}{path}?watch=true&fieldSelector=metadata.name%3D{name}"
        async with session.get(f"{door.server}{selected}", ssl=door.tls, headers=door.headers) as watch:
            await watch.content.readline()
            seconds = []
            for number in range(count + WARM):
                began = time.perf_counter()
                patch = {"data": {"n": str(number)}}
                content = {"Content_Type": "application/merge-patch+json"}
                changing = asyncio.create_task(member.call(session, "PATCH", f"{path}/{name}", patch, **content))
                event = json.loads(await watch.content.readline())
                seconds.append(time.perf_counter() - began)
                if event["object"]["data"]["n"] != str(number):
                    raise RuntimeError(f"watch {measure}: {event['object']['data']} where {number} was next")
                await changing
    told_times(f"watch {measure}", seconds)


async def enter(door: Door, member: RawMember) -> None:
    """Make a raw member a cluster."""
    secret = {"metadata": {"name": "raw-i"}, "data": {"token": base64.b64encode(member.token.encode()).decode()}}
    reference = {"namespace": "karmada-cluster", "name": "raw-i"}
    spec = {"syncMode": "Push", "apiEndpoint": member.url, "impersonatorSecretRef": reference}
    kind = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
    async with aiohttp.ClientSession() as session:
        await door.call(session, "POST", "/api/v1/namespaces/karmada-cluster/secrets", secret)
        await door.call(session, "POST", CLUSTERS, {**kind, "metadata": {"name": "raw"}, "spec": spec})


async def stream(door: Door, fleet: Fleet) -> None:
    """Many bytes both ways through a connection that switched its protocol."""
    names = ("gateway", CONTROL)
    async with raw_member() as member:
        await enter(door, member)
        before = {name: pss_mib(fleet.pid(name)) for name in names}
        host, _, port = door.server.removeprefix("https://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=door.tls)
        lines = [f"POST {CLUSTERS}/raw/proxy/switch HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        lines += [f"{name}: {value}" for name, value in door.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head:
            raise RuntimeError(head.decode(errors="replace"))
        await reader.readexactly(len(b"early,"))
        part = os.urandom(1 << 16)
        began = time.perf_counter()

        async def send() -> None:
            for _ in range(STREAM >> 16):
                writer.write(part)
                await writer.drain()

        async def receive() -> None:
            left = STREAM
            while left:
                left -= len(await reader.read(min(left, 1 << 17)))

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            group.create_task(receive())
        seconds = time.perf_counter() - began
        grown = {f"{name}_grown_mib": round(pss_mib(fleet.pid(name)) - before[name], 1) for name in names}
        writer.close()
        told("stream", mib_per_second=round(2 * (STREAM >> 20) / seconds, 1), **grown)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FLEETLOG_AGENT_REQUESTS"] = "all"
        fleet = Fleet(Path(directory) / "installation", ["--members", "3"]).start()
        try:
            names = (CONTROL, "member1", "member3")
            control, push, pull = (Door(fleet.layout.kubeconfig(name)) for name in names)
            ways = (
                ("direct", push, push, ""),
                ("push", push, control, f"{CLUSTERS}/member1/proxy"),
                ("pull", pull, control, f"{CLUSTERS}/member3/proxy"),
            )
            for measure, member, door, prefix in ways:
                asyncio.run(latency(measure, door, f"{prefix}{OBJECT}", count))
                asyncio.run(watched(measure, member, door, prefix, count))
            asyncio.run(stream(control, fleet))
        finally:
            fleet.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

"""What a list of the metrics of all pods costs over many members.

    python -m tests.bench.bench_metrics [--clusters N] [--pods N] [--lists N]

N simulated members (100) in one process with N pods each (100). One line of JSON for the list of all pods' metrics
(20 times, one after the other), and one for a sum of a custom metric over all members: median and slowest in
milliseconds, bytes of an answer, and milliseconds of CPU of the gateway, of the control plane and of all members for
each. Before them one line for the merging alone, of answers that are at hand: `--merging` measures nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry

from services._kit.base.metrics import ReadCollector
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.proxying.member_exchange import CHUNK, MemberRequest
from services._rules.metrics.metric_questions import UsageQuestion
from services.apiserver.reads.negotiation import Form
from services.cli.common.layout import CONTROL
from services.gateway.measured_members import MeasuredMember
from services.gateway.member_metrics.member_questions import MemberQuestions, QuestionBounds
from services.gateway.member_metrics.merged_answers import MergedAnswers
from services.gateway.member_metrics.served_metrics import ServedMetrics
from services.gateway.member_metrics.usage_forms import usage_list
from services.gateway.metrics import QuestionMetrics
from tests.bench.bench_proxy import Door
from tests.bench.crowd import Crowd, names
from tests.bench.measures import emit
from tests.bench.processes import cpu_seconds
from tests.e2e.fleet import Fleet
from tests.support.metric_member import pod_usage

PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
SIZE = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/metrics/size"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_PATIENCE = 600.0


def workload(replicas: int) -> dict[str, object]:
    """A Deployment of so many pods."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def fill(crowd: Crowd, members: list[str], pods: int) -> None:
    """Make the pods of each member, and a value of a metric."""
    for name in members:
        client = await open_kubeconfig(str(crowd.kubeconfig(name)))
        try:
            await client.create(DEPLOYMENTS, workload(pods))
        finally:
            await client.close()
        crowd.set_metric(name, {"metric": "size", "value": "1", "resource": "namespaces", "name": "default"})


async def read(session: aiohttp.ClientSession, door: Door, path: str) -> tuple[bytes, bool]:
    """One answer, and whether it lacks members: those of a machine that is busy may not be ready."""
    async with session.get(door.server + path, ssl=door.tls, headers=door.headers) as answer:
        body = await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
        return body, "Warning" in answer.headers


async def filled(session: aiohttp.ClientSession, door: Door, count: int) -> None:
    """Wait until all pods have metrics, and all members the sum."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            found = len(msgspec.json.decode((await read(session, door, PODS))[0])["items"])
            await read(session, door, SIZE)
        except RuntimeError as error:
            found, shown = 0, str(error)
        else:
            shown = f"{found} of {count} pods"
        if found == count:
            return
        if time.monotonic() > until:
            raise RuntimeError(shown)
        await asyncio.sleep(2.0)


class AnswerAtHand:
    """An exchange whose body is known."""

    status = 200
    headers = ()

    def __init__(self, body: bytes) -> None:
        self._parts = [body[place : place + CHUNK] for place in range(0, len(body), CHUNK)]

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    async def write(self, data: bytes) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self._parts.clear()


class MembersAtHand:
    """A transport to members that all answer the same at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def open(self, request: MemberRequest, body: object = None) -> AnswerAtHand:
        return AnswerAtHand(self._body)


async def merge(asked: argparse.Namespace) -> None:
    """What the gateway's own part costs: reading, checking and writing all items."""
    pods = [pod_usage(f"web-7d4b9c8f6d-{number:05}", f"{number + 1}234567n") for number in range(asked.pods)]
    body = msgspec.json.encode({"kind": "PodMetricsList", "metadata": {}, "items": pods})
    members = {name: MeasuredMember(name, ready=True) for name in names(asked.clusters)}
    metrics = QuestionMetrics(CollectorRegistry(), ReadCollector("gateway"))
    questions = MemberQuestions(MembersAtHand(body), QuestionBounds(600.0, 32 << 20), metrics)
    answers = MergedAnswers(questions, ServedMetrics(questions, lambda: members), lambda: members)
    spent = []
    for _ in range(asked.lists):
        began = time.process_time()
        found = await answers.usages(UsageQuestion("pods"), {})
        usage_list(UsageQuestion("pods"), found.items, Form(), "")
        spent.append(time.process_time() - began)
        assert len(found.items) == asked.clusters * asked.pods
    emit("metrics_merge_cpu_ms", 1000 * statistics.median(spent), "ms", clusters=asked.clusters, pods=asked.pods)


async def measure(fleet: Fleet, crowd: Crowd, asked: argparse.Namespace) -> None:
    """All figures."""
    door = Door(fleet.layout.kubeconfig(CONTROL))
    members = names(asked.clusters)
    await fill(crowd, members, asked.pods)
    async with aiohttp.ClientSession() as session:
        await filled(session, door, asked.clusters * asked.pods)
        for name, path in (("metrics_list_ms", PODS), ("metrics_sum_ms", SIZE)):
            processes = {"gateway": fleet.pid("gateway"), CONTROL: fleet.pid(CONTROL), "members": crowd.pid}
            before = {part: cpu_seconds(pid) for part, pid in processes.items()}
            seconds, size, partial = [], 0, 0
            for _ in range(asked.lists):
                began = time.perf_counter()
                body, lacks = await read(session, door, path)
                seconds.append(time.perf_counter() - began)
                size, partial = max(size, len(body)), partial + lacks
            cpu = {
                f"{part}_cpu_ms": round(1000 * (cpu_seconds(pid) - before[part]) / asked.lists, 1)
                for part, pid in processes.items()
            }
            slowest = round(1000 * max(seconds), 1)
            more = {"clusters": asked.clusters, "pods": asked.pods, "bytes": size, "partial": partial}
            more |= {"slowest_ms": slowest, **cpu}
            emit(name, 1000 * statistics.median(seconds), "ms", **more)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--lists", type=int, default=20)
    parser.add_argument("--merging", action="store_true")
    asked = parser.parse_args()
    asyncio.run(merge(asked))
    if asked.merging:
        return
    # A machine that is busy with other things leaves members out otherwise.
    os.environ.setdefault("FLEETLOG_MEMBER_METRICS_SECONDS", "60")
    with tempfile.TemporaryDirectory(prefix="fleetlog-metrics-") as directory:
        home = Path(directory)
        with Crowd(home / "members", asked.clusters) as crowd:
            joined = [
                word for name in names(asked.clusters) for word in ("--member", f"{name}={crowd.kubeconfig(name)}")
            ]
            fleet = Fleet(home / "fleet", ["--members", "0", *joined], start_seconds=_PATIENCE)
            fleet.start()
            try:
                asyncio.run(measure(fleet, crowd, asked))
            finally:
                fleet.stop()


if __name__ == "__main__":
    main()

"""Measures the index of search: memory of the process, pages, lookups, a relist, news; one JSON line each.

`--pods 2000000 --clusters 1000` is the full size; the default is a tenth of it. Workloads differ as real ones do, pods
of one in what differs between pods (`tests/support/fleet_pods.py`). They are read as a follower reads them: decoded,
checked, packed. Pages are those that a client gets: encoded answers, from places all over the index.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.manifest import Manifest
from services._kit.base import answer_limits
from services._kit.kube.answers.shapes import check_manifest, manifest_of
from services.search.http.query_answers import DEFAULT_LIMIT, QueryAnswers
from services.search.index.member_index import Change, MemberIndex, Shelf
from services.search.index.member_part import key_of
from services.search.registries.member_facts import Gvr
from tests.support.fleet_pods import FleetPod, fleet_pods

PODS: Final = Gvr("", "v1", "pods")
PAGES: Final = {
    "unfiltered": "kind=Pod",
    "one label, many": "label.app=search-2",
    "one label, one member": "label.app=own-3-of-member-0040",
    "namespace": "namespace=team-7",
    "namespace and label": "namespace=team-7 label.app=profile-127",
    "image": "image~/side-2:2.1",
    "phase, few": "phase=Failed",
    "image and phase": "image~/ledger- phase!=Running",
    "name": "name~-127-",
    "nothing": "label.app=none",
    "node": "node=ip-10-40-3-5.compute.internal",
    "field": ".status.containerStatuses.restartCount>0",
}
"""A query of each kind; the last two have to look into objects."""


def memory(what: str) -> int:
    """Bytes of this process: VmRSS is what it has, VmHWM the most it had."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {what}")


def fill(shelf: Shelf, cluster: str, pods: Iterable[FleetPod]) -> float:
    """List a member; seconds of processor time that its follower takes for it."""
    limits, part = answer_limits.in_force(), shelf.new_part(cluster, "Pod")
    texts = [Raw(pod.text) for pod in pods]
    began = time.process_time()
    for text in texts:
        manifest: Manifest = manifest_of(text, limits.object_values)
        check_manifest(manifest, "Pod")
        metadata = manifest["metadata"]
        part.put(key_of(metadata["namespace"], metadata["name"]), shelf.pack(cluster, manifest))
    shelf.show(part)
    return time.process_time() - began


def told(name: str, value: float, unit: str, **more: Any) -> None:
    """Print one figure."""
    line = {"name": f"search {name}", "value": round(value, 3), "unit": unit, **more, "load": os.getloadavg()[0]}
    print(json.dumps(line), flush=True)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


async def paged(answers: QueryAnswers, tokens: list[str], count: int, size: dict[str, int]) -> None:
    """Pages of each query: the first, and so many that go on at places all over the index."""
    draw = random.Random(7)
    for name, query in PAGES.items():
        took: list[float] = []
        used: list[float] = []
        objects = 0
        for number in range(count):
            token = draw.choice(tokens) if number else ""
            began, cpu = time.perf_counter(), time.process_time()
            answer = await answers.answer({"query": query, "continue": token, "limit": str(DEFAULT_LIMIT)})
            took.append(1000 * (time.perf_counter() - began))
            used.append(1000 * (time.process_time() - cpu))
            assert isinstance(answer.body, bytes)
            objects += answer.body.count(b'"kind":"Pod"')
        more = {"p99": round(sorted(took)[int(0.99 * len(took))], 1), "first": round(took[0], 1)}
        more |= {"cpu_p50": round(statistics.median(used), 1), "cpu_p99": round(sorted(used)[int(0.99 * len(used))], 1)}
        told(f"page of {DEFAULT_LIMIT}, {name}", statistics.median(took), "ms", **more, found=objects // count, **size)


async def relisted(shelf: Shelf, answers: QueryAnswers, each: int, size: dict[str, int]) -> None:
    """A member restarts: while its list is taken in, pages show what was there."""
    cluster = shelf.clusters[len(shelf.clusters) // 2]
    query = {"query": f"cluster={cluster}", "continue": "", "limit": "1"}
    pods = list(fleet_pods(cluster, each, random.Random(2)))
    shown: list[bool] = []
    limits, part, used = answer_limits.in_force(), shelf.new_part(cluster, "Pod"), 0.0
    for place, pod in enumerate(pods):
        began = time.process_time()
        manifest = manifest_of(Raw(pod.text), limits.object_values)
        part.put(pod.key, shelf.pack(cluster, manifest))
        used += time.process_time() - began
        if place % 100 == 0:
            body = (await answers.answer(query)).body
            shown.append(isinstance(body, bytes) and b'"kind":"Pod"' in body)
    used += timed(lambda: shelf.show(part)) / 1000
    told("relist of one member", 1000 * used, "ms", empty_answers=shown.count(False), asked=len(shown), **size)


def main() -> None:
    """Fill the index, and ask it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=200_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--pages", type=int, default=100, help="pages of each query")
    arguments = parser.parse_args()
    each = arguments.pods // arguments.clusters
    size = {"objects": arguments.pods, "clusters": arguments.clusters}
    index = MemberIndex()
    shelf, text, packing = index.shelf(PODS), 0, 0.0
    before = memory("VmRSS")
    for number in range(arguments.clusters):
        cluster = f"member-{number:04d}"
        pods = list(fleet_pods(cluster, each, random.Random(cluster)))
        text += sum(len(pod.text) for pod in pods)
        packing += fill(shelf, cluster, pods)
        del pods
    gc.collect()
    kept = memory("VmRSS")
    json_bytes = round(text / arguments.pods)
    told("memory of the process", kept / (1 << 20), "MiB", most=memory("VmHWM") >> 20, empty=before >> 20, **size)
    told("memory of an object", (kept - before) / arguments.pods, "bytes", json=json_bytes, **size)
    told("memory by its own count", index.bytes / (1 << 20), "MiB", **size)
    told("objects taken in", arguments.pods / packing, "per second of CPU", **size)
    draw = random.Random(3)
    answers = QueryAnswers(index)
    places = [(str(PODS), cluster, draw.choice(shelf.parts[cluster].keys())) for cluster in shelf.clusters]
    asyncio.run(paged(answers, [token_of(*place) for place in places], arguments.pages, size))
    names = [next(iter(shelf.parts[cluster].objects)).split("/") for cluster in shelf.clusters[:50]]
    told("lookup by name", timed(lambda: [shelf.find(*name) for name in names]) / len(names), "ms", **size)
    heard: list[Change] = []
    for _ in range(1000):
        shelf.subscribe(lambda change: heard.append(change))
    part = shelf.parts[shelf.clusters[0]]
    key, stored = next(iter(part.objects.items()))
    told("one change to 1,000 listeners", timed(lambda: shelf.put(part, key, stored)), "ms", **size)
    shelf.listeners.clear()
    asyncio.run(relisted(shelf, answers, each, size))
    told("memory after all pages", memory("VmRSS") / (1 << 20), "MiB", most=memory("VmHWM") >> 20, **size)


def token_of(kind: str, cluster: str, key: str) -> str:
    """A continue token after an object."""
    return base64.urlsafe_b64encode(msgspec.json.encode((kind, cluster, key))).decode().rstrip("=")


if __name__ == "__main__":
    main()

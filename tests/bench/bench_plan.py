"""Seconds of a plan over many templates on a real server of the log; one JSON line per figure.

`read` folds the log, `nothing` plans an edit that moves nothing, `one` re-targets one policy, `many` re-targets 1,000
objects, with and without the copies of their manifests. Each plan begins with a fresh read, as the command does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from schemas.codec import Known
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.topology import BLOBS, FACTS
from services._rules.policies.skip_rules import compile_skip_rules
from services.foresight.difference import plan_of
from services.foresight.planning import Change, Planner
from services.foresight.reading import Asked, read_world, settle
from services.foresight.world import new_world
from tests.bench.bench_scheduler_ground import Ground
from tests.support.facts import cluster, deployment, key, only

CLUSTERS = ("m1", "m2", "m3", "m4", "m5")


def emit(name: str, value: float, unit: str, **about: object) -> None:
    """Print one figure."""
    print(json.dumps({"name": name, "value": round(value, 3), "unit": unit, **about}), flush=True)


def template(number: int, policies: int) -> Change:
    """A Deployment that one policy selects."""
    group = f"g{number % policies}"
    metadata = {"name": f"web-{number}", "uid": f"uid-{number}", "labels": {"app": "nginx", "group": group}}
    return Change(key(f"web-{number}"), deployment(4, **metadata))


def policy(number: int, *clusters: str, generation: int = 1) -> Change:
    """The policy of one group."""
    name = f"p{number}"
    selector = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "labelSelector": {"matchLabels": {"group": f"g{number}"}},
    }
    manifest: Manifest = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": generation},
        "spec": {
            "resourceSelectors": [selector],
            "placement": {
                **only(*clusters),
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
            },
        },
    }
    return Change(PolicyKey("PropagationPolicy", "default", name), manifest)


def standing(templates: int, policies: int) -> Iterator[Known]:
    """The facts of a fleet at rest, as the services would have decided them."""
    world = new_world(compile_skip_rules())
    fleet = [cluster(name) for name in CLUSTERS]
    for seq, event in enumerate(fleet, 1):
        world.take(seq, f"cluster.{event.name}", event, 0.0)
    world.begin()
    planner = Planner(world, time.time(), manifests=False)
    planner.apply([policy(number, "m1", "m2", "m3") for number in range(policies)])
    planner.apply([template(number, policies) for number in range(templates)])
    assert not planner.advance().any
    yield from fleet
    for facts in (world.detector.policy_facts, world.detector.template_facts, world.detector.binding_facts):
        yield from facts.values()
    for scheduled in world.scheduler.objects.values():
        if scheduled.placement is not None:
            yield scheduled.placement


async def planned(logs: dict[str, Any], changes: list[Change], *, manifests: bool = False) -> tuple[float, int]:
    """Seconds from an empty process to a plan, and the workloads in it."""
    gc.collect()
    began = time.perf_counter()
    asked = Asked()
    world = await read_world(logs, asked)
    planner = Planner(world, time.time(), interpreter=asked.asking.interpreter, manifests=manifests)
    planner.apply(changes)

    async def nothing(_: ObjectKey) -> None:
        return None

    await settle(planner, logs, asked, nothing)
    found = plan_of(planner, ())
    msgspec.json.encode(found)
    seconds = time.perf_counter() - began
    await asked.close()
    return seconds, found.radius.disturbed


async def measure(directory: Path, templates: int, policies: int) -> None:
    """Fill a log and plan over it."""
    about = {"templates": templates, "policies": policies}
    ground = Ground(directory)
    await ground.open()
    try:
        await ground.append(standing(templates, policies))
        logs = {FACTS.name: ground.facts, BLOBS.name: ground.facts}
        began = time.perf_counter()
        asked = Asked()
        await read_world(logs, asked)
        await asked.close()
        emit("plan_read_seconds", time.perf_counter() - began, "s", **about)
        many = min(policies, max(1, 1000 * policies // templates))
        same, other = ("m3", "m2", "m1"), ("m3", "m4", "m5")
        for name, count, to in (("nothing", 1, same), ("one", 1, other), ("many", many, other)):
            changes = [policy(number, *to, generation=2) for number in range(count)]
            seconds, moved = await planned(logs, changes)
            emit(f"plan_{name}_seconds", seconds, "s", moved=moved, **about)
        seconds, moved = await planned(logs, changes, manifests=True)
        emit("plan_many_with_copies_seconds", seconds, "s", moved=moved, **about)
    finally:
        await ground.close()


def main() -> None:
    """Measure with what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_plan", description=__doc__)
    parser.add_argument("--templates", type=int, default=10_000)
    parser.add_argument("--policies", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory), asked.templates, asked.policies))


if __name__ == "__main__":
    main()

"""Decisions per second of the pure algorithm; one JSON object per figure: processor time as `value`, and `wall`.

One policy alone, `mixed` and `changing` decide 240 different bindings over and over (several policies, sizes, requests
and tie-breakers, half of them running somewhere already) with the clusters unchanged in between, except for `changing`,
where one cluster in every ten decisions does; `accurate` adds the answers of an accurate estimator for every cluster.
`moving` never decides the same twice: 2,400 bindings with 240 requests change their replicas every time and start from
where the last decision put them; `moved` is the share of decisions that came out otherwise than the one before.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Status

SPREAD = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 5}]
REGIONS = [{"spreadByField": "region", "minGroups": 2, "maxGroups": 3}, *SPREAD]


def divided(preference: str, **more: Any) -> Manifest:
    """A strategy that divides replicas."""
    return {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference, **more}


DYNAMIC = divided("Weighted", weightPreference={"dynamicWeight": "AvailableReplicas"})
STATIC = divided(
    "Weighted",
    weightPreference={
        "staticWeightList": [
            {"targetCluster": {"labelSelector": {"matchLabels": {"env": "prod"}}}, "weight": 3},
            {"targetCluster": {}, "weight": 1},
        ]
    },
)
PLACEMENTS: dict[str, Manifest] = {
    "duplicated": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
    "static": {"replicaScheduling": STATIC},
    "dynamic": {"replicaScheduling": DYNAMIC},
    "aggregated": {"replicaScheduling": divided("Aggregated")},
    "spread": {"replicaScheduling": DYNAMIC, "spreadConstraints": SPREAD},
    "regions": {"replicaScheduling": divided("Aggregated"), "spreadConstraints": REGIONS},
}


def cluster(number: int, rng: random.Random) -> Manifest:
    """A cluster with some capacity in use."""
    cpu, pods = rng.randint(16, 256), rng.randint(110, 2200)
    return {
        "metadata": {"name": f"member{number:04}", "labels": {"env": rng.choice(["prod", "dev"]), "n": str(number)}},
        "spec": {"region": f"r{number % 8}", "provider": rng.choice(["a", "b"]), "zones": [f"z{number % 24}"]},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}],
            "resourceSummary": {
                "allocatable": {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": str(pods)},
                "allocated": {"cpu": f"{rng.randint(0, cpu * 500)}m", "memory": f"{cpu}Gi", "pods": str(pods // 3)},
            },
        },
    }


def binding(number: int, placement: Manifest, names: list[str], rng: random.Random) -> Manifest:
    """A Deployment's binding; every second one runs on up to three clusters already."""
    running = rng.sample(names, min(3, len(names))) if number % 2 else []
    return {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "default",
            "name": f"app{number}",
            "uid": f"{rng.getrandbits(64):016x}",
        },
        "replicas": rng.randint(1, 100),
        "replicaRequirements": {"resourceRequest": {"cpu": f"{rng.choice([50, 100, 250])}m", "memory": "128Mi"}},
        "placement": {
            "clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}}
        }
        | placement,
        "clusters": [{"name": name, "replicas": rng.randint(1, 10)} for name in running],
    }


class Rate(Struct, frozen=True):
    """Runs per second of processor time, and of the time on the wall."""

    cpu: float
    wall: float


def rate(run: Callable[[], int], seconds: float) -> Rate:
    """Decisions per second over at least so many seconds of processor time, after one warm-up round."""
    run()
    # A decision waits for nothing: its own time on the processor is right on a machine that others use, too.
    done, begin, clock = 0, time.process_time(), time.perf_counter()
    while (spent := time.process_time() - begin) < seconds:
        done += run()
    return Rate(done / spent, done / (time.perf_counter() - clock))


def report(name: str, value: Rate, unit: str = "decisions/s", **more: float) -> None:
    """Print one figure."""
    print(json.dumps({"name": name, "value": round(value.cpu), "unit": unit, "wall": round(value.wall), **more}))


class Moving:
    """Bindings that are never decided twice alike; every call decides the next 240 of them."""

    def __init__(self, index: ClusterIndex, names: list[str], rng: random.Random, status: Status) -> None:
        self.decided = self.moved = 0
        self.counts = False
        """Whether to compare outcomes, which costs time of its own."""
        self._index = index
        self._status = status
        self._views: list[Any] = []
        self._next = 0
        for number in range(2400):
            spec = binding(number, list(PLACEMENTS.values())[number % len(PLACEMENTS)], names, rng)
            spec["replicaRequirements"]["resourceRequest"]["cpu"] = f"{10 + number % 240}m"
            self._views.append(binding_view(spec))

    def __call__(self) -> int:
        """Decide; where a binding runs afterwards is what its next decision starts from."""
        views = self._views
        for number in range(self._next, self._next + 240):
            view = views[number]
            view = replace(view, replicas=view.replicas % 100 + 1)
            found = schedule(self._index, view, self._status)
            if self.counts:
                self.moved += set(found.clusters) != set(view.clusters)
                self.decided += 1
            views[number] = replace(view, clusters=found.clusters if found.error is None else ())
        self._next = (self._next + 240) % len(views)
        return 240


def changing(index: ClusterIndex, views: list[Any], manifests: list[Manifest], rng: random.Random) -> Callable[[], int]:
    """All bindings once, with the facts of one cluster changing after every tenth decision."""
    spare = [cluster_view(item | {"status": cluster(0, rng)["status"]}) for item in rng.sample(manifests, 3)]

    def run() -> int:
        current = index
        for number, view in enumerate(views):
            if number % 10 == 0:
                current = current.with_cluster(spare[number // 10 % len(spare)])
            schedule(current, view)
        return len(views)

    return run


def main(seconds: float) -> None:
    """Measure 3, 100 and 1,000 clusters, each policy alone and all mixed."""
    for count in (3, 100, 1000):
        rng = random.Random(count)
        manifests = [cluster(number, rng) for number in range(count)]
        index = ClusterIndex(cluster_view(item) for item in manifests)
        names = [item["metadata"]["name"] for item in manifests]
        status = Status(last_scheduled_time="2026-01-01T00:00:00Z")
        mixed = []
        for name, placement in PLACEMENTS.items():
            views = [binding_view(binding(number, placement, names, rng)) for number in range(40)]
            mixed += views

            def run(views: list[Any] = views, index: ClusterIndex = index, status: Status = status) -> int:
                for view in views:
                    schedule(index, view, status)
                return len(views)

            report(f"schedule/{count}/{name}", rate(run, seconds))
        rng.shuffle(mixed)

        def run_mixed(views: list[Any] = mixed, index: ClusterIndex = index, status: Status = status) -> int:
            for view in views:
                schedule(index, view, status)
            return len(views)

        report(f"schedule/{count}/mixed", rate(run_mixed, seconds))
        moving = Moving(index, names, rng, status)
        found = rate(moving, seconds)
        moving.counts = True
        moving()
        report(f"schedule/{count}/moving", found, moved=round(moving.moved / moving.decided, 3))
        report(f"schedule/{count}/changing", rate(changing(index, mixed, manifests, rng), seconds))
        answers = {name: rng.randint(0, 200) for name in names}

        def run_accurate(views: list[Any] = mixed, index: ClusterIndex = index, answers: Any = answers) -> int:
            for view in views:
                schedule(index, view, estimates=[answers])
            return len(views)

        report(f"schedule/{count}/accurate", rate(run_accurate, seconds))
    specs = [binding(number, PLACEMENTS["dynamic"], names, rng) for number in range(40)]

    def read() -> int:
        for spec in specs:
            binding_view(spec)
        return len(specs)

    report("read/binding", rate(read, seconds), "bindings/s")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)

"""What is remembered between decisions changes none of them: looking back, refusals, explanations of what is known."""

from __future__ import annotations

import random

import pytest

from services._rules.scheduling.decision_explanation import explain
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.filters import diagnosis, refusal
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Status
from tests.bench.bench_scheduler import PLACEMENTS, binding, cluster


def test_older_index_keeps_caches_of_the_newer_one() -> None:
    rng = random.Random(1)
    first = ClusterIndex(cluster_view(cluster(number, rng)) for number in range(5))
    made: list[str] = []

    def look(index: ClusterIndex, what: str) -> str:
        def make() -> str:
            made.append(what)
            return what

        return index.remember("key", make, lambda value, changed: f"{value} and {changed[0]}")

    assert look(first, "first") == "first"
    second = first.with_cluster(cluster_view(cluster(2, rng)))
    assert look(second, "second") == "first and member0002"
    # An explanation of a decision that others have followed.
    assert look(first, "again") == "again"
    assert look(second, "second") == "first and member0002"
    assert made == ["first", "again"]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_refusals_are_those_of_every_cluster_asked_alone(name: str) -> None:
    rng = random.Random(name)
    manifests = [cluster(number, rng) for number in range(40)]
    for number, manifest in enumerate(manifests):
        if number % 5 == 0:
            manifest["spec"]["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
        if number % 7 == 0:
            del manifest["metadata"]["labels"]["env"]
        if number % 11 == 0:
            manifest["status"]["apiEnablements"] = []
        if number % 13 == 0:
            manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    index = ClusterIndex(cluster_view(manifest) for manifest in manifests)
    names = [manifest["metadata"]["name"] for manifest in manifests]
    for number in range(12):
        spec = binding(number, PLACEMENTS[name], names, rng)
        if number % 3 == 0:
            spec["gracefulEvictionTasks"] = [{"fromCluster": rng.choice(names)}]
        view = binding_view(spec)
        alone = {
            item.name: refused
            for item in index.clusters
            if not item.deleting and (refused := refusal(item, view, "")) is not None
        }
        assert alone
        assert {which: (found[0], found[1][0]) for which, found in diagnosis(index, view, Status()).items()} == alone


@pytest.mark.parametrize("name", PLACEMENTS)
def test_known_decision_is_explained_like_a_new_one(name: str) -> None:
    rng = random.Random(name)
    manifests = [cluster(number, rng) for number in range(20)]
    index = ClusterIndex(cluster_view(manifest) for manifest in manifests)
    names = [manifest["metadata"]["name"] for manifest in manifests]
    for number in range(10):
        view = binding_view(binding(number, PLACEMENTS[name], names, rng))
        known = schedule(index, view)
        assert explain(index, view, decision=known) == explain(index, view)

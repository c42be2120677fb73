"""Explanations of changed placements: every cluster accounted for, bounded in bytes, written beside the decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.explained import MAX_BYTES, PlacementExplained
from schemas.subjects import explained as explained_subject
from schemas.topology import EXPLAINED, FACTS, HISTORY
from services._kit.base.log_errors import StreamFull
from services._kit.log.stream_port import NewMessage
from services.cli.queries.explain import document, placement_of, text
from services.cli.queries.required_by import Required
from services.scheduler.decide import decide_with_trace
from services.scheduler.decision_trace import Changed, explained
from services.scheduler.trace_writer import MOST_WAITING, ExplanationWriter
from tests.support.facts import DYNAMIC, KEY, NOW, STATIC, binding, cluster, member
from tests.support.harness import SCHEDULER, Harness
from tests.support.memory_log import MemoryLog

REGIONS = {
    "replicaScheduling": DYNAMIC["replicaScheduling"],
    "spreadConstraints": [
        {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
    ],
}
GROUPS = {
    "clusterAffinities": [
        {"affinityName": "near", "clusterNames": ["nowhere"]},
        {"affinityName": "far", "clusterNames": ["m2"]},
    ]
}


def changed(*events: Known, now: float = NOW) -> Changed:
    event, considered = decide_with_trace(Harness(SCHEDULER, *events).state, KEY, now, "default-scheduler")
    assert isinstance(event, PlacementDecided | PlacementFailed)
    assert considered is not None
    return Changed(KEY, event, considered)


def told(item: Changed) -> PlacementExplained:
    return explained(item.event, item.considered)


def test_explanation_has_weights_shares_and_refusals() -> None:
    found = told(changed(cluster("m1"), cluster("m2"), cluster("m3"), binding(3)))
    assert {item.name: (item.weight, item.share) for item in found.clusters} == {"m1": (1, 1.5), "m2": (1, 1.5)}
    assert sum(item.replicas for item in found.clusters) == 3
    assert [(item.filter, item.count, item.names) for item in found.refused] == [("ClusterAffinity", 1, ("m3",))]
    assert (found.steps[0].mode, found.steps[0].demand, found.steps[0].weights) == ("static weights", 3, 2)
    assert (found.total, found.decided_at, found.strategy) == (3, NOW, "StaticWeight")


def test_explanation_names_regions_and_the_chosen_one() -> None:
    found = told(
        changed(
            member("m1", pods=9, region="east"), member("m2", pods=2, region="west"), cluster("m3"), binding(5, REGIONS)
        )
    )
    assert {(item.name, item.chosen) for item in found.regions} == {("east", True), ("west", False)}
    assert {item.filter for item in found.refused} == {"SpreadConstraint"}


def test_explanation_names_failed_affinity_terms() -> None:
    found = told(changed(cluster("m1"), cluster("m2"), binding(2, GROUPS)))
    assert [item.name for item in found.tried] == ["near"]
    assert "0/2 clusters are available" in found.tried[0].message
    assert found.affinity_name == "far"


def test_explanation_of_failure_names_what_refused_clusters() -> None:
    item = changed(cluster("m3"), cluster("m4", deleting=True), binding(2))
    found = told(item)
    assert isinstance(item.event, PlacementFailed)
    assert (found.error, found.ignored, found.clusters) == ("FitError", 1, ())
    assert found.refused[0].names == ("m3",)


@pytest.mark.parametrize("placement", [STATIC, {}, GROUPS, REGIONS])
def test_explanation_of_2000_clusters_stays_within_its_bound(placement: Any) -> None:
    taints = [
        [{"key": f"{'k' * 60}-{number % 900}", "value": "v" * 60, "effect": "NoSchedule"}] if number % 2 else []
        for number in range(2000)
    ]
    clusters = [
        member(f"{number:04}-{'x' * 240}", pods=5, region=f"r{number}", taints=taints[number]) for number in range(2000)
    ]
    found = told(changed(*clusters, binding(90, placement)))
    assert len(msgspec.json.encode(found)) <= MAX_BYTES
    refused = sum(item.count for item in found.refused) + found.more_reasons
    assert len(found.clusters) + found.others + refused == found.total == 2000


async def logs_of(*items: Changed) -> dict[str, MemoryLog]:
    """Streams with these decisions."""
    logs = {stream.name: MemoryLog(stream) for stream in (FACTS, HISTORY, EXPLAINED)}
    await logs[FACTS.name].given(*(item.event for item in items))
    return logs


async def test_explanation_is_found_by_its_placement() -> None:
    item = changed(cluster("m1"), cluster("m2"), cluster("m3"), binding(3))
    logs = await logs_of(item)
    writer = ExplanationWriter(logs[EXPLAINED.name])
    writer.offer([item])
    await writer.idle()
    found = await placement_of(logs, KEY)
    assert found is not None
    assert found.explanation == told(item)
    assert document(KEY, found, Required())["explanation"]["strategy"] == "StaticWeight"
    shown = text(KEY, found)
    assert (
        "runs on m1 (2 replicas) and m2 (1 replica)" in shown or "runs on m1 (1 replica) and m2 (2 replicas)" in shown
    )
    assert "ClusterAffinity" in shown
    assert "3 replicas are divided by static weights" in shown
    assert "KEPT" in text(KEY, found, wide=True)


async def test_later_placement_hides_the_earlier_explanation() -> None:
    item, later = (changed(cluster("m1"), cluster("m2"), binding(3), now=now) for now in (NOW, NOW + 1))
    logs = await logs_of(item, later)
    await logs[EXPLAINED.name].append([NewMessage(explained_subject(KEY), msgspec.json.encode(told(item)))])
    found = await placement_of(logs, KEY)
    assert found is not None
    assert (found.position, found.explanation) == (2, None)


async def test_object_never_placed_has_no_explanation() -> None:
    logs = await logs_of()
    assert await placement_of(logs, KEY) is None


class FullLog(MemoryLog):
    """A stream that takes nothing."""

    async def append(self, messages: Any, fence: Any = None) -> Any:
        raise StreamFull(10077, "maximum bytes exceeded")


async def test_lost_explanations_are_counted() -> None:
    writer = ExplanationWriter(FullLog(EXPLAINED))
    writer.offer([changed(cluster("m1"), cluster("m2"), binding(3))])
    await writer.idle()
    assert (writer.written, writer.lost) == (0, 1)


async def test_oldest_waiting_explanations_are_lost_first() -> None:
    stream = MemoryLog(EXPLAINED)
    writer = ExplanationWriter(stream)
    item = changed(cluster("m1"), cluster("m2"), binding(3))
    writer.offer([item] * (MOST_WAITING + 5))
    await writer.idle()
    assert (writer.written, writer.lost) == (MOST_WAITING, 5)

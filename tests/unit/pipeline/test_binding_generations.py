"""Services count their changes of a binding's spec, and note since when a result is what it is."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, PlacementFailed
from services._kit.delivery.lane_parts import since
from services._rules.scheduling.scheduling_views import SchedulingOptions
from services.cluster_monitor.decide import ClusterDecision
from services.scheduler.decide import Rules
from tests.support.facts import KEY, NOW, binding, cluster, raw, removed, seen, template, work
from tests.support.harness import AGGREGATOR, RENDERER, Harness, scheduler_with
from tests.support.monitor_harness import MonitorHarness

SCHEDULER = scheduler_with(Rules(SchedulingOptions(several_templates=True)))


def test_placements_count_changes_of_clusters() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), binding(2))
    first = scheduler.decides()
    assert isinstance(first, PlacementDecided)
    assert (first.changes, first.observed_generation, first.since) == (1, 2, NOW)
    scheduler.now += 10
    scheduler.given(replace(binding(3), generation=2))
    scaled = scheduler.decides()
    assert isinstance(scaled, PlacementDecided)
    assert (scaled.changes, scaled.observed_generation, scaled.since) == (2, 4, NOW)
    scheduler.now += 10
    scheduler.given(removed("m1"))
    failed = scheduler.decides()
    assert isinstance(failed, PlacementFailed)
    assert (failed.clusters, failed.changes, failed.observed_generation) == ((), 3, 4)
    assert failed.since == failed.failed_at == NOW + 20
    scheduler.now += 10
    scheduler.given(cluster("m1"))
    again = scheduler.decides()
    assert isinstance(again, PlacementDecided)
    assert (again.changes, again.since) == (4, NOW + 30)


def test_works_count_what_their_member_gets() -> None:
    renderer = Harness(RENDERER, cluster("m1"), template(), binding(1))
    renderer.given(*Harness(SCHEDULER, cluster("m1"), binding(1)).decides_all())
    (first,) = renderer.decides_all()
    assert first.generation == 1
    renderer.given(replace(binding(1, suspension={"dispatching": True}), generation=2))
    (suspended,) = renderer.decides_all()
    assert (suspended.suspended, suspended.generation) == (True, 2)


def test_rollups_note_when_they_became_complete() -> None:
    aggregator = Harness(AGGREGATOR, cluster("m1"), template(), binding(1))
    aggregator.given(*Harness(SCHEDULER, cluster("m1"), binding(1)).decides_all(), work("m1"))
    waiting = aggregator.decides()
    assert (waiting.fully_applied, waiting.since) == (False, 0.0)
    aggregator.given(seen("m1"))
    done = aggregator.decides()
    assert (done.fully_applied, done.since) == (True, 0.0)
    decided_at = aggregator.state.objects[done.key].rollup.provenance.decided_at
    aggregator.given(replace(seen("m1"), status=raw({"replicas": 1, "readyReplicas": 1})))
    assert aggregator.decides().since == decided_at


def test_reports_note_since_when_they_say_so() -> None:
    before = replace(seen("m1"), at=5.0)
    assert since(before, "u1", applied=True) == 5.0
    assert since(replace(before, since=3.0), "u1", applied=True) == 3.0
    assert since(before, "u1", applied=False) == since(before, "u2", applied=True) == since(None, "u1", True) == 0.0


def fact(decision: ClusterDecision) -> ClusterChanged:
    (event,) = decision.events
    assert isinstance(event, ClusterChanged)
    return event


def test_clusters_note_when_placements_follow_them() -> None:
    monitor = MonitorHarness("m1")
    first = fact(monitor.probes(0))
    assert first.shaped_at > 0
    monitor.cluster.fact = first
    monitor.manifest["metadata"]["labels"] = {"a": "b"}
    labelled = fact(monitor.probes(20))
    assert labelled.shaped_at > first.shaped_at
    monitor.cluster.fact = labelled
    summary = {"kubernetesVersion": "v1.32.0", "apiEnablements": [{"groupVersion": "v1", "resources": []}]}
    assert fact(monitor.probes(40, summary=summary)).shaped_at == labelled.shaped_at


def test_failures_count_the_clusters_that_are_there_now() -> None:
    only = {"clusterAffinity": {"clusterNames": ["m1"]}}
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2, only))
    assert isinstance(scheduler.decides(), PlacementDecided)
    scheduler.given(cluster("m1", deleting=True))
    leaving = scheduler.decides()
    assert isinstance(leaving, PlacementFailed)
    assert leaving.message.startswith("0/2 clusters are available")
    assert KEY in scheduler.given(removed("m1"))
    gone = scheduler.decides()
    assert isinstance(gone, PlacementFailed)
    assert gone.message.startswith("0/1 clusters are available")
    assert gone.since == leaving.failed_at
    assert scheduler.decides() is None

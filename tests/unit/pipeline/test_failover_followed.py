"""What others make of evictions: works, Events, and bindings as people see them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.events.eviction import EvictionFinished, EvictionRequested, Postponed
from schemas.events.placement import TargetCluster
from schemas.events.rollup import Cleared
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from services._rules.failover.eviction_requests import awaits_removal, carried_labels
from services._rules.failover.eviction_requests import removed as after_removal
from services._rules.history.event_words import summarize
from services.gateway.state import GatewayState
from services.gateway.state import fold as fold_gateway
from services.gateway.views.binding_views import build
from services.status_aggregator.event_announcements import announce
from tests.support.facts import KEY, binding, cluster, evicted, placement, seen, task, template, withdrawn, work
from tests.support.harness import AGGREGATOR, RENDERER, Harness

STAGE = {"stage": "two"}


def works(renderer: Harness) -> dict[str, WorkEvent]:
    """Decide and append; the works by cluster."""
    return {event.cluster: event for event in renderer.decides_all()}


def running() -> Harness:
    """Two replicas on m1 and m2, works appended."""
    renderer = Harness(
        RENDERER, cluster("m1"), cluster("m2"), cluster("m3"), template(), binding(), placement(m1=1, m2=1)
    )
    assert set(works(renderer)) == {"m1", "m2"}
    return renderer


def test_graceful_copy_stays_until_the_eviction_ends() -> None:
    renderer = running()
    renderer.given(evicted("m1"))
    assert works(renderer) == {}
    renderer.given(placement(as_of=renderer.seq, m2=1, m3=1))
    assert set(works(renderer)) == {"m3"}
    renderer.given(EvictionFinished(key=KEY, uid="u1", left=("m1",)))
    (work,) = renderer.decides_all()
    assert (type(work), work.cluster) == (WorkWithdrawn, "m1")


def test_copy_is_withdrawn_at_once_when_purged_directly() -> None:
    renderer = running()
    renderer.given(evicted("m1", "Directly"))
    (work,) = renderer.decides_all()
    assert (type(work), work.cluster) == (WorkWithdrawn, "m1")


def test_preserved_state_becomes_labels() -> None:
    renderer = Harness(RENDERER, cluster("m1"), cluster("m3"), template(), binding(1), placement(m1=1))
    works(renderer)
    carrying: dict[str, Any] = {"preserved_state": STAGE, "clusters_before": ("m1",)}
    renderer.given(evicted("m1", "Directly", **carrying))
    works(renderer)
    renderer.given(placement(as_of=renderer.seq, m3=1))
    assert works(renderer) == {}, "the copy in m1 goes first"
    renderer.given(evicted("m1", "Directly", removed=True, **carrying))
    rendered = works(renderer)["m3"]
    assert isinstance(rendered, WorkRendered)
    assert isinstance(rendered.manifest, Raw)
    assert msgspec.json.decode(rendered.manifest)["metadata"]["labels"]["stage"] == "two"


def test_preserved_state_goes_to_the_one_new_cluster_only() -> None:
    direct = task("m1", "Directly", preserved_state=STAGE, clusters_before=("m1",))
    graceful = task("m1", preserved_state=STAGE)
    assert carried_labels((direct,), "m3", 1) == STAGE
    assert carried_labels((direct,), "m3", 2) == {}
    assert carried_labels((direct,), "m1", 1) == {}
    assert carried_labels((direct, graceful), "m3", 1) == {}
    assert carried_labels((), "m3", 1) == {}


def test_kubernetes_event_names_every_cluster_left() -> None:
    state = Harness(AGGREGATOR, binding()).state
    assert not announce(state, evicted("m1"))
    notes = announce(state, EvictionFinished(key=KEY, uid="u1", left=("m1", "m2")))
    assert {(note.reason, note.component) for note in notes} == {
        ("EvictWorkloadFromClusterSucceed", "resource-binding-graceful-eviction-controller")
    }
    assert [(note.kind, note.message) for note in notes] == [
        (kind, f"Evict from cluster {cluster} succeed.")
        for cluster in ("m1", "m2")
        for kind in ("ResourceBinding", "Deployment")
    ]
    assert not announce(state, EvictionFinished(key=KEY, uid="u1"))


def test_kubernetes_event_names_what_an_eviction_waits_for() -> None:
    state = Harness(AGGREGATOR, binding()).state
    notes = announce(state, EvictionRequested(key=KEY, uid="u1", tasks=(), postponed=(Postponed("m1", "no status"),)))
    assert [(note.kind, note.reason, note.warning) for note in notes] == [
        (kind, "EvictWorkloadFromClusterFailed", True) for kind in ("ResourceBinding", "Deployment")
    ]
    assert notes[0].message == "Evict from cluster m1 failed, and is tried again: no status."


def test_binding_shows_graceful_eviction_tasks() -> None:
    state = GatewayState()
    eviction = evicted(
        "m1", replicas=1, preserved_state=STAGE, created_at=1_700_000_000.0, clusters_before=("m1", "m2")
    )
    for seq, event in enumerate([cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), eviction], 1):
        fold_gateway(state, seq, 1_700_000_000.0, event)
    spec = build(state.objects[KEY], "5")["spec"]
    assert spec["clusters"] == [{"name": "m2", "replicas": 1}]
    assert spec["gracefulEvictionTasks"] == [
        {
            "fromCluster": "m1",
            "reason": "TaintUntolerated",
            "producer": "TaintManager",
            "purgeMode": "Gracefully",
            "replicas": 1,
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "preservedLabelState": STAGE,
            "clustersBeforeFailover": ["m1", "m2"],
        }
    ]


def test_history_summarizes_evictions() -> None:
    going_on = replace(evicted("m2"), left=("m1",))
    assert summarize(going_on) == "left m1; leave m2: TaintUntolerated, Gracefully"
    assert summarize(evicted("m1", "Directly")) == "leave m1: TaintUntolerated, Directly"
    assert summarize(replace(evicted("m1"), tasks=(), postponed=(Postponed("m1", "no status"),))) == (
        "leave m1 later: no status"
    )
    assert summarize(EvictionFinished(key=KEY, uid="u1", returned=(TargetCluster("m1", 1),))) == "stays in m1"


def test_cluster_is_clear_once_its_copy_is_absent() -> None:
    aggregator = Harness(
        AGGREGATOR, cluster("m1"), cluster("m2"), template(), binding(), placement(m1=1, m2=1), work("m1")
    )
    given, written = aggregator.given, aggregator.seq

    def cleared() -> list[Cleared]:
        aggregator.decides()
        summed = aggregator.state.objects[KEY].rollup
        return list(summed.cleared) if summed else []

    given(seen("m1", work_seq=written))
    given(evicted("m1", "Directly", created_at=5.0))
    assert cleared() == []
    given(withdrawn("m1"))
    withdrawal = aggregator.seq
    assert cleared() == []
    given(seen("m1", work_seq=written, applied=False, absent=True))
    assert cleared() == [], "that was drift: the report does not answer the withdrawal"
    given(seen("m1", work_seq=withdrawal, applied=False, absent=True))
    assert cleared() == [Cleared("m1", 5.0)]
    given(EvictionFinished(key=KEY, uid="u1", left=("m1",)))
    assert cleared() == []


def test_only_written_copies_are_waited_for() -> None:
    direct = task("m1", "Directly", created_at=5.0)
    assert awaits_removal((direct,), {"m1", "m2"})
    assert not awaits_removal((direct,), {"m2"})
    assert not awaits_removal((task("m1"),), {"m1"})
    (gone,) = after_removal((direct,), [Cleared("m1", 5.0)])
    assert not awaits_removal((gone,), {"m1"})
    assert after_removal((direct,), [Cleared("m1", 4.0)]) == (direct,)

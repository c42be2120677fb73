"""What others make of evictions: works, Events, and bindings as people see them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.rollup import Cleared
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from services._rules.failover.eviction_requests import awaits_removal, carried_labels, removed
from services._rules.history.event_words import summarize
from services.gateway.state import GatewayState
from services.gateway.state import fold as fold_gateway
from services.gateway.views.binding_views import build
from services.override_renderer.decide import AtHand, decide
from services.override_renderer.state import RendererState, fold
from services.status_aggregator.decide import decide as decide_rollup
from services.status_aggregator.event_announcements import announce
from services.status_aggregator.state import AggregatorState
from services.status_aggregator.state import fold as fold_aggregator
from tests.support.facts import KEY, binding, cluster, placement, template

STAGE = {"stage": "two"}


def leave(name: str, mode: str = "Gracefully", **task: Any) -> EvictionRequested:
    made = EvictionTask(
        from_cluster=name, reason="TaintUntolerated", producer="TaintManager", purge_mode=mode, replicas=1, **task
    )
    return EvictionRequested(key=KEY, uid="u1", tasks=(made,))


class Renderer:
    """The renderer's state at the end of a log."""

    def __init__(self, *events: Known) -> None:
        self.state = RendererState()
        self.seq = 0
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            fold(self.state, self.seq, subject_of(event), event)

    def works(self) -> dict[str, WorkEvent]:
        events = decide(self.state, KEY, AtHand()).events
        self.given(*events)
        return {event.cluster: event for event in events}


def running(*more: Known) -> Renderer:
    """Two replicas on m1 and m2, works written."""
    renderer = Renderer(cluster("m1"), cluster("m2"), cluster("m3"), template(), binding(), placement(m1=1, m2=1))
    renderer.given(*more)
    assert set(renderer.works()) == {"m1", "m2"}
    return renderer


def test_the_copy_in_a_cluster_being_left_stays_untouched_until_the_eviction_ended() -> None:
    renderer = running()
    renderer.given(leave("m1"))
    assert renderer.works() == {}
    renderer.given(placement(as_of=renderer.seq, m2=1, m3=1))
    assert set(renderer.works()) == {"m3"}
    renderer.given(EvictionFinished(key=KEY, uid="u1", left=("m1",)))
    works = renderer.works()
    assert list(works) == ["m1"]
    assert isinstance(works["m1"], WorkWithdrawn)


def test_a_copy_to_be_removed_directly_goes_at_once() -> None:
    renderer = running()
    renderer.given(leave("m1", "Directly"))
    works = renderer.works()
    assert list(works) == ["m1"]
    assert isinstance(works["m1"], WorkWithdrawn)


def test_preserved_state_comes_along_as_labels() -> None:
    renderer = Renderer(cluster("m1"), cluster("m3"), template(), binding(1), placement(m1=1))
    renderer.works()
    carrying: dict[str, Any] = {"preserved_state": STAGE, "clusters_before": ("m1",)}
    renderer.given(leave("m1", "Directly", **carrying))
    renderer.works()
    renderer.given(placement(as_of=renderer.seq, m3=1))
    assert renderer.works() == {}, "the copy in m1 goes first"
    renderer.given(leave("m1", "Directly", removed=True, **carrying))
    work = renderer.works()["m3"]
    assert isinstance(work, WorkRendered)
    assert isinstance(work.manifest, Raw)
    assert msgspec.json.decode(work.manifest)["metadata"]["labels"]["stage"] == "two"


def test_state_is_carried_only_to_the_one_new_cluster_of_a_direct_move() -> None:
    (direct,) = leave("m1", "Directly", preserved_state=STAGE, clusters_before=("m1",)).tasks
    (graceful,) = leave("m1", preserved_state=STAGE).tasks
    assert carried_labels((direct,), "m3", 1) == STAGE
    assert carried_labels((direct,), "m3", 2) == {}
    assert carried_labels((direct,), "m1", 1) == {}
    assert carried_labels((direct, graceful), "m3", 1) == {}
    assert carried_labels((), "m3", 1) == {}


def test_an_event_tells_of_every_cluster_that_was_left() -> None:
    state = AggregatorState()
    asked = binding()
    fold_aggregator(state, 1, subject_of(asked), asked)
    assert announce(state, leave("m1")) is None
    note = announce(state, EvictionFinished(key=KEY, uid="u1", left=("m1",)))
    assert note is not None
    assert (note.reason, note.message, note.warning) == (
        "EvictWorkloadFromClusterSucceed",
        "Evict from cluster m1 succeed.",
        False,
    )
    assert announce(state, EvictionFinished(key=KEY, uid="u1")) is None


def test_bindings_show_their_tasks() -> None:
    state = GatewayState()
    task = leave("m1", preserved_state=STAGE, created_at=1_700_000_000.0, clusters_before=("m1", "m2"))
    for seq, event in enumerate([cluster("m1"), cluster("m2"), binding(), placement(m1=1, m2=1), task], 1):
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


def test_a_history_tells_what_is_being_left_and_what_was() -> None:
    going_on = replace(leave("m2"), left=("m1",))
    assert summarize(going_on) == "left m1; leave m2: TaintUntolerated, Gracefully"
    assert summarize(leave("m1", "Directly")) == "leave m1: TaintUntolerated, Directly"


def test_a_cluster_is_clear_once_the_withdrawn_copy_was_seen_to_be_absent() -> None:
    state = AggregatorState()
    seq = 0

    def given(*events: Known) -> None:
        nonlocal seq
        for event in events:
            seq += 1
            fold_aggregator(state, seq, subject_of(event), event)

    def cleared() -> list[Cleared]:
        rollup = decide_rollup(state, KEY)
        if rollup is not None:
            given(rollup)
        return list(state.objects[KEY].rollup.cleared) if state.objects[KEY].rollup else []

    given(cluster("m1"), cluster("m2"), template(), binding(), placement(m1=1, m2=1))
    work = WorkRendered(cluster="m1", key=KEY, uid="u1", api_version="apps/v1", kind="Deployment", digest="d")
    given(work)
    written = seq
    given(WorkObserved(cluster="m1", key=KEY, uid="u1", work_seq=written, applied=True, health="Healthy"))
    given(leave("m1", "Directly", created_at=5.0))
    assert cleared() == []
    given(WorkWithdrawn(cluster="m1", key=KEY, uid="u1", api_version="apps/v1", kind="Deployment"))
    withdrawn = seq
    assert cleared() == []
    given(WorkObserved(cluster="m1", key=KEY, uid="u1", work_seq=written, absent=True))
    assert cleared() == [], "that was drift: the report does not answer the withdrawal"
    given(WorkObserved(cluster="m1", key=KEY, uid="u1", work_seq=withdrawn, absent=True))
    assert cleared() == [Cleared("m1", 5.0)]
    given(EvictionFinished(key=KEY, uid="u1", left=("m1",)))
    assert cleared() == []


def test_only_a_copy_that_was_ever_written_is_waited_for() -> None:
    (task,) = leave("m1", "Directly", created_at=5.0).tasks
    assert awaits_removal((task,), {"m1", "m2"})
    assert not awaits_removal((task,), {"m2"})
    assert not awaits_removal(leave("m1").tasks, {"m1"})
    (gone,) = removed((task,), [Cleared("m1", 5.0)])
    assert not awaits_removal((gone,), {"m1"})
    assert removed((task,), [Cleared("m1", 4.0)]) == (task,)

"""A fact that marks no key changes no decision: whatever came before, deciding the key all the same says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementFailed, PlacementReleased
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._kit.base.settings import load
from services._kit.log.stream_port import Message
from services._kit.runtime.service import NOTHING
from services.failover.app import Failover
from services.failover.settings import FailoverSettings
from services.janitor import state as janitor
from services.janitor.decide import CleanupDecision
from services.janitor.decide import decide as ends
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from tests.support.facts import KEY, binding, cluster, placement, template
from tests.unit.pipeline.test_failover_decide import tainted

NOW = 1_700_000_000.0
RETENTION = 10.0
CARES = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}
MEMBERS = ("m1", "m2")


def task(cluster: str) -> EvictionTask:
    return EvictionTask(
        from_cluster=cluster, reason="TaintUntolerated", producer="TaintManager", purge_mode="Directly", created_at=NOW
    )


def work(name: str, uid: str) -> WorkRendered:
    return WorkRendered(cluster=name, key=KEY, uid=uid, api_version="apps/v1", kind="Deployment", digest="d")


def seen(name: str, uid: str, position: int, *, absent: bool) -> WorkObserved:
    status = Raw(msgspec.json.encode({"replicas": 1}))
    return WorkObserved(
        cluster=name, key=KEY, uid=uid, digest="d", work_seq=position, applied=not absent, absent=absent, status=status
    )


UIDS = ("u1", "u2")
ABOUT_CLUSTERS: list[Known] = [
    fact
    for name in MEMBERS
    for fact in (cluster(name), tainted(name, ("x", "NoExecute")), ClusterRemoved(name=name, uid=f"uid-{name}"))
]
ABOUT_OBJECTS: list[Known] = [
    fact
    for uid in UIDS
    for fact in (
        replace(template(), uid=uid),
        TemplateDeleted(key=KEY, uid=uid),
        binding(uid=uid),
        binding(uid=uid, failover=CARES, propagateDeps=True),
        BindingReleased(key=KEY, uid=uid),
        placement(uid=uid, m1=1, m2=1),
        PlacementFailed(key=KEY, uid=uid, reason="Unschedulable", message="no room"),
        PlacementReleased(key=KEY, uid=uid),
        EvictionRequested(key=KEY, uid=uid, tasks=(task("m1"),)),
        EvictionFinished(key=KEY, uid=uid, left=("m1",)),
        StatusRolledUp(key=KEY, uid=uid, items=(ClusterStatusItem(cluster="m1", applied=True, health="Unhealthy"),)),
        StatusRolledUp(key=KEY, uid=uid, closed=True),
    )
]
ABOUT_COPIES: list[Known] = [
    fact
    for uid in UIDS
    for name in MEMBERS
    for fact in (
        work(name, uid),
        WorkWithdrawn(cluster=name, key=KEY, uid=uid, api_version="apps/v1", kind="Deployment"),
        seen(name, uid, 3, absent=False),
        seen(name, uid, 1000, absent=True),
    )
]


def histories(*families: str) -> st.SearchStrategy[list[Known]]:
    """Facts of these aggregates in any order."""
    facts = ABOUT_CLUSTERS + ABOUT_OBJECTS + ABOUT_COPIES
    chosen = [fact for fact in facts if subject_of(fact).partition(".")[0] in families]
    return st.lists(st.sampled_from(chosen), max_size=8)


def messages(history: Sequence[Known]) -> list[tuple[Message, Known]]:
    """The facts as they come from the log, one after the other."""
    return [
        (
            Message(subject=subject_of(event), seq=number, time=NOW, data=b"", headers={}),
            replace(event, provenance=Provenance(as_of=number - 1, decided_at=NOW)),
        )
        for number, event in enumerate(history, 1)
    ]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("template", "binding", "eviction", "work", "observed", "rollup", "cluster"))
def test_nothing_is_summed_or_written_for_an_object_that_no_fact_marked(history: list[Known]) -> None:
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", events=False))
    state = service.new_state()
    for message, event in messages(history):
        touched = service.fold(state, message, event)
        if getattr(event, "key", None) == KEY and not touched:
            assert service.decide(state, KEY, NOW + 60.0) == NOTHING


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("cluster", "binding", "placement", "eviction", "rollup"), st.booleans())
def test_nothing_leaves_a_cluster_for_a_fact_that_marked_nothing(history: list[Known], enabled: bool) -> None:
    gates = {"FLEETLOG_FEATURE_GATES": "Failover=true", "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true"}
    service = Failover(load(FailoverSettings, gates if enabled else {}))
    state = service.new_state()
    for message, event in messages(history):
        touched = service.fold(state, message, event)
        if message.subject.startswith(("binding.", "placement.")) and not touched:
            assert service.decide(state, KEY, NOW + 60.0) == NOTHING


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("cluster", "template", "binding", "work", "observed"))
def test_nothing_comes_to_its_end_by_a_fact_that_marked_nothing(history: list[Known]) -> None:
    state = janitor.JanitorState(held=10_000)

    def over() -> bool:
        verdict: CleanupDecision = ends(state, KEY, NOW + 60.0, RETENTION)
        return bool(verdict.purges) or verdict.ask_history or verdict.wake_at is not None

    for message, event in messages(history):
        before = over()
        touched = janitor.fold(state, message.seq, message.time, message.subject, event)
        if getattr(event, "key", None) == KEY and KEY not in touched:
            assert not over() or before


def marks_last(service: StatusAggregator | Failover, *history: Known) -> bool:
    """Whether the last of these facts marks a key."""
    state: Any = service.new_state()
    touched = [list(service.fold(state, message, event)) for message, event in messages(history)]
    return bool(touched[-1])


ROLLED_UP = StatusRolledUp(key=KEY, uid="u1", items=(ClusterStatusItem(cluster="m1", applied=True),))
EVICTED = EvictionRequested(key=KEY, uid="u1", tasks=(task("m1"),))


@pytest.mark.parametrize(
    ("before", "marks"),
    [
        ([cluster("m1"), template(), placement(m1=1)], False),
        ([work("m1", "u1")], True),
        ([seen("m1", "u1", 1, absent=False)], True),
        ([ROLLED_UP], True),
        ([EVICTED], True),
    ],
    ids=["nothing to sum", "a work", "a report", "a sum", "an eviction"],
)
def test_a_changed_binding_is_summed_anew_once_there_is_something_to_sum(before: list[Known], marks: bool) -> None:
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", events=False))
    for event in (binding(replicas=3), template(), placement(m1=2), TemplateDeleted(key=KEY, uid="u1")):
        assert marks_last(service, *before, event) is marks


@pytest.mark.parametrize(
    ("before", "marks"),
    [
        ([cluster("m1"), binding()], False),
        ([cluster("m1"), binding(failover=CARES, propagateDeps=True)], True),
        ([cluster("m1"), tainted("m2", ("x", "NoExecute")), binding()], True),
        ([cluster("m1"), binding(), EVICTED], True),
    ],
    ids=["no reason to leave", "its health counts", "a taint somewhere", "an eviction"],
)
def test_a_changed_binding_or_placement_is_looked_at_where_it_may_have_to_move(
    before: list[Known], marks: bool
) -> None:
    service = Failover(load(FailoverSettings, {}))
    for event in (binding(replicas=3), placement(m1=2)):
        assert marks_last(service, *before, event) is marks

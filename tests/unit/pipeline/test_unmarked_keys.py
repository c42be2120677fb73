"""A fact that marks no key changes no decision: whatever came before, deciding the key all the same says nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.template import TemplateDeleted
from services._kit.base.settings import load
from services._rules.decision import NOTHING
from services.failover.app import Failover
from services.failover.decide import FailoverDecision
from services.failover.settings import FailoverSettings
from services.janitor import state as janitor
from services.janitor.decide import CleanupDecision
from services.janitor.decide import decide as ends
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from tests.support.facts import KEY, binding, cluster, evicted, placement, template, work
from tests.support.varied_facts import CARES, NOW, histories, messages, seen, tainted

RETENTION = 10.0


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("template", "binding", "eviction", "work", "observed", "rollup", "cluster"))
def test_unmarked_object_is_not_summed(history: list[Known]) -> None:
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", events=False))
    state = service.new_state()
    for message, event in messages(history):
        touched = service.fold(state, message, event)
        if getattr(event, "key", None) == KEY and not touched:
            assert service.decide(state, KEY, NOW + 60.0) == NOTHING


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("cluster", "binding", "placement", "eviction", "rollup"), st.booleans())
def test_unmarked_object_is_not_evicted(history: list[Known], enabled: bool) -> None:
    gates = {"FLEETLOG_FEATURE_GATES": "Failover=true", "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true"}
    service = Failover(load(FailoverSettings, gates if enabled else {}))
    state = service.new_state()
    for message, event in messages(history):
        touched = service.fold(state, message, event)
        if message.subject.startswith(("binding.", "placement.")) and not touched:
            assert service.decide(state, KEY, NOW + 60.0) == FailoverDecision()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories("cluster", "template", "binding", "work", "observed"))
def test_unmarked_object_is_not_purged(history: list[Known]) -> None:
    state = janitor.JanitorState(held=10_000)

    def over() -> bool:
        verdict: CleanupDecision = ends(state, KEY, NOW + 60.0, RETENTION)
        return verdict.wake_at is not None

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
EVICTED = evicted("m1", "Directly", created_at=NOW)


@pytest.mark.parametrize(
    ("before", "marks"),
    [
        ([cluster("m1"), template(), placement(m1=1)], False),
        ([work("m1")], True),
        ([seen("m1", "u1", 1, absent=False)], True),
        ([ROLLED_UP], True),
        ([EVICTED], True),
    ],
    ids=["nothing to sum", "a work", "a report", "a sum", "an eviction"],
)
def test_changed_binding_is_summed_once_there_is_a_status(before: list[Known], marks: bool) -> None:
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", events=False))
    for event in (binding(replicas=3), template(), placement(m1=2), TemplateDeleted(key=KEY, uid="u1")):
        assert marks_last(service, *before, event) is marks


@pytest.mark.parametrize(
    ("before", "marks"),
    [
        ([cluster("m1"), binding()], False),
        ([cluster("m1"), binding(failover=CARES, propagateDeps=True)], True),
        ([cluster("m1"), tainted("m2"), binding()], True),
        ([cluster("m1"), binding(), EVICTED], True),
    ],
    ids=["no reason to leave", "its health counts", "a taint somewhere", "an eviction"],
)
def test_changed_binding_is_marked_where_it_may_have_to_move(before: list[Known], marks: bool) -> None:
    service = Failover(load(FailoverSettings, {}))
    for event in (binding(replicas=3), placement(m1=2)):
        assert marks_last(service, *before, event) is marks

"""Drift that was repaired is told: in the history, as an Event, and whatever else the report says is news."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from schemas.codec import encode, subject_of
from schemas.events.observed import Drift, WorkObserved
from schemas.events.work import WorkRendered
from schemas.topology import OBSERVED
from services._kit.delivery.lane_parts import instead_of, says_the_same
from services._rules.delivery.drift import removed
from services._rules.history.event_words import summarize
from services._rules.history.timeline import Fact, timeline
from services.status_aggregator.event_announcements import announce
from services.status_aggregator.state import AggregatorState, fold
from tests.support.facts import KEY, binding, cluster, placement, template

DRIFT = (Drift(".spec.replicas", "kubectl-edit", "Update", 2.0), Drift(".metadata.labels.app"))
WORDS = ".spec.replicas was changed by kubectl-edit; .metadata.labels.app was changed by an unknown writer; put back"


def seen(**fields: object) -> WorkObserved:
    status = Raw(msgspec.json.encode({"replicas": 1}))
    event = WorkObserved(
        cluster="m1", key=KEY, uid="u1", work_seq=6, digest="d", applied=True, health="Healthy", status=status
    )
    return msgspec.structs.replace(event, **fields)


def test_a_repair_is_a_line_of_the_history_that_no_work_caused() -> None:
    repaired = seen(operation="updated", drift=DRIFT)
    assert summarize(repaired, seen()) == f"m1: {WORDS}, Healthy"
    assert summarize(seen(operation="created", drift=removed())) == (
        "m1: it was deleted in the cluster; created again, Healthy"
    )
    (step,) = timeline([Fact(9, 5.0, subject_of(repaired), encode(repaired), OBSERVED.name)])
    assert step.causes == ()


def test_a_repair_is_a_warning_on_the_template() -> None:
    state = AggregatorState()
    work = WorkRendered(cluster="m1", key=KEY, uid="u1", api_version="apps/v1", kind="Deployment", digest="d")
    for seq, event in enumerate((cluster("m1"), template(), binding(1), placement(m1=1), work), 1):
        fold(state, seq, subject_of(event), event)
    note = announce(state, seen(operation="updated", drift=DRIFT))
    assert note is not None
    assert (note.reason, note.warning, note.uid) == ("DriftRepaired", True, "u1")
    assert note.message == f"cluster m1: {WORDS}"


def test_each_repair_is_said_though_the_object_is_as_it_was() -> None:
    assert says_the_same(seen(), seen(operation="updated"))
    assert not says_the_same(seen(), seen(operation="updated", drift=DRIFT))


def test_a_repair_that_was_not_sent_yet_is_said_with_the_next_report() -> None:
    sent = instead_of(seen(operation="updated", drift=DRIFT), seen(at=9.0))
    assert (sent.operation, sent.drift, sent.at) == ("updated", DRIFT, 9.0)


def test_two_repairs_in_one_report_are_both_said_and_a_new_object_says_all() -> None:
    other = (Drift(".spec.paused", "kubectl-patch", "Update", 3.0),)
    first, again = seen(operation="updated", drift=DRIFT), seen(operation="updated", drift=other)
    assert instead_of(first, again).drift == (*DRIFT, *other)
    assert instead_of(first, first).drift == DRIFT
    assert instead_of(first, seen(operation="created", drift=removed())).drift == removed()
    assert summarize(instead_of(seen(operation="created", drift=removed()), again), seen()) == (
        "m1: it was deleted in the cluster; created again, Healthy"
    )

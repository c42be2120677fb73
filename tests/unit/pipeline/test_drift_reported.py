"""Drift that was repaired is told: in the history, as an Event, and whatever else the report says is news."""

from __future__ import annotations

from typing import Any

from schemas.codec import encode, subject_of
from schemas.events.observed import Drift, WorkObserved
from schemas.topology import OBSERVED
from services._kit.delivery.lane_parts import instead_of, says_the_same
from services._rules.delivery.drift import removed
from services._rules.history.event_words import summarize
from services._rules.history.timeline import Fact, timeline
from services.status_aggregator.event_announcements import announce
from tests.support import facts
from tests.support.harness import aggregator_of

DRIFT = (Drift(".spec.replicas", "kubectl-edit", "Update", 2.0), Drift(".metadata.labels.app"))
WORDS = ".spec.replicas was changed by kubectl-edit; .metadata.labels.app was changed by an unknown writer; put back"


def seen(**fields: Any) -> WorkObserved:
    return facts.seen("m1", work_seq=6, **fields)


def test_repaired_drift_is_a_history_line_without_cause() -> None:
    repaired = seen(operation="updated", drift=DRIFT)
    assert summarize(repaired, seen()) == f"m1: {WORDS}, Healthy"
    assert summarize(seen(operation="created", drift=removed())) == (
        "m1: it was deleted in the cluster; created again, Healthy"
    )
    (step,) = timeline([Fact(9, 5.0, subject_of(repaired), encode(repaired), OBSERVED.name)])
    assert step.causes == ()


def test_repaired_drift_is_a_warning_event() -> None:
    note = announce(aggregator_of().state, seen(operation="updated", drift=DRIFT))[0]
    assert (note.reason, note.warning, note.uid) == ("DriftRepaired", True, "u1")
    assert note.message == f"cluster m1: {WORDS}"


def test_each_repair_is_reported_though_nothing_changed() -> None:
    assert says_the_same(seen(), seen(operation="updated"))
    assert not says_the_same(seen(), seen(operation="updated", drift=DRIFT))


def test_unsent_repair_is_reported_with_the_next_report() -> None:
    sent = instead_of(seen(operation="updated", drift=DRIFT), seen(at=9.0))
    assert (sent.operation, sent.drift, sent.at) == ("updated", DRIFT, 9.0)


def test_repairs_of_one_report_are_joined() -> None:
    other = (Drift(".spec.paused", "kubectl-patch", "Update", 3.0),)
    first, again = seen(operation="updated", drift=DRIFT), seen(operation="updated", drift=other)
    assert instead_of(first, again).drift == (*DRIFT, *other)
    assert instead_of(first, first).drift == DRIFT
    assert instead_of(first, seen(operation="created", drift=removed())).drift == removed()
    assert summarize(instead_of(seen(operation="created", drift=removed()), again), seen()) == (
        "m1: it was deleted in the cluster; created again, Healthy"
    )

"""Facts become Kubernetes Events on templates, bindings and works, with the names that their readers know."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.events.binding import PolicyRef
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementFailed
from schemas.events.work import AppliedOverride
from services._rules.constants import BINDING_API
from services._rules.identities import binding_uid, work_uid
from services._rules.kubernetes.event_objects import Note, event_name, event_of
from services._rules.overrides import OverrideError
from services.status_aggregator.event_announcements import Before, Early, announce, before, bound
from tests.support.facts import KEY, SHARED, binding, cluster, placement, raw, seen, template, withdrawn, work
from tests.support.harness import AGGREGATOR, Harness, aggregator_of

WORK = "nginx-687f7fb96f"


def reasons(notes: Any) -> list[tuple[str, str, str]]:
    return [(note.kind, note.reason, note.component) for note in notes]


def told_of(aggregator: Any, event: Any) -> list[Note]:
    """The Events about a fact, as the service tells them: compared with what was known before."""
    known = before(aggregator.state, event)
    aggregator.given(event)
    return list(announce(aggregator.state, event, known))


def test_request_and_placement_become_events() -> None:
    aggregator = aggregator_of()
    requested = announce(aggregator.state, binding(2))
    assert reasons(requested) == [
        ("Deployment", "ApplyPolicySucceed", "resource-detector"),
        ("Deployment", "GetReplicasSucceed", "resource-detector"),
    ]
    assert requested[0].message == "Apply policy(default/nginx-propagation) succeed"
    placed = announce(aggregator.state, placement(m1=1, m2=1))
    assert reasons(placed) == [
        ("ResourceBinding", "ScheduleBindingSucceed", "default-scheduler"),
        ("Deployment", "ScheduleBindingSucceed", "default-scheduler"),
    ]
    assert {note.message for note in placed} == {"Binding has been scheduled successfully. Result: {m1:1, m2:1}"}
    failed = PlacementFailed(key=KEY, uid="u1", reason="NoClusterFit", message="0/2 clusters are available")
    (about, _) = announce(aggregator.state, failed)
    assert (about.reason, about.warning, about.message) == ("ScheduleBindingFailed", True, failed.message)


def test_components_are_said_instead_of_replicas() -> None:
    several = replace(binding(2), spec=Raw(b'{"components":[{"name":"driver","replicas":1}]}'))
    assert announce(aggregator_of().state, several)[1].reason == "GetComponentsSucceed"


def test_a_service_that_is_shared_has_no_event_of_a_policy() -> None:
    assert announce(aggregator_of().state, replace(binding(2), policy=PolicyRef(SHARED, "id-1", 1))) == ()


def test_events_name_the_objects_that_the_gateway_shows() -> None:
    placed = announce(aggregator_of().state, placement(m1=1))[0]
    event = event_of(placed, first="2026-01-01T00:00:00Z", last="2026-01-01T00:00:00Z", count=1)
    assert event["involvedObject"] == {
        "apiVersion": BINDING_API,
        "kind": "ResourceBinding",
        "namespace": "default",
        "name": "nginx-deployment",
        "uid": binding_uid(KEY, "u1"),
    }
    assert event["source"] == {"component": "default-scheduler"}
    assert event["metadata"] == {"name": event_name(placed), "namespace": "default"}
    dispatching = announce(aggregator_of().state, work("m1"))[-1]
    assert (dispatching.key.namespace, dispatching.key.name) == ("karmada-es-m1", WORK)
    assert (dispatching.uid, dispatching.kind) == (work_uid("m1", KEY, "u1"), "Work")


def test_works_say_once_that_they_are_dispatched() -> None:
    aggregator = Harness(AGGREGATOR, cluster("m1"), template(), binding(1), placement(m1=1))
    first = told_of(aggregator, work("m1"))
    assert reasons(first) == [
        ("ResourceBinding", "SyncWorkSucceed", "binding-controller"),
        ("Deployment", "SyncWorkSucceed", "binding-controller"),
        ("Work", "WorkDispatching", "execution-controller"),
    ]
    assert "WorkDispatching" not in [note.reason for note in told_of(aggregator, work("m1"))]
    suspended = told_of(aggregator, replace(work("m1"), suspended=True))
    assert suspended[-1].message == "Work dispatching is in a suspended state."


def test_reports_become_events_where_something_is_new() -> None:
    aggregator = aggregator_of()
    created = told_of(aggregator, replace(seen("m1", operation="created"), health="Unhealthy"))
    assert reasons(created) == [
        ("Deployment", "SyncSucceed", "execution-controller"),
        ("Work", "SyncSucceed", "execution-controller"),
        ("Work", "ReflectStatusSucceed", "work-status-controller"),
        ("Work", "InterpretHealthSucceed", "work-status-controller"),
    ]
    assert created[1].message == f"Sync work(karmada-es-m1/{WORK}) to cluster(m1) successful."
    assert told_of(aggregator, replace(seen("m1"), health="Unhealthy")) == []
    healthy = told_of(aggregator, seen("m1"))
    assert [note.message for note in healthy] == ["Interpret health of Deployment(default/nginx) as Healthy."]
    changed = told_of(aggregator, replace(seen("m1"), status=raw({"replicas": 7})))
    assert [note.reason for note in changed] == ["ReflectStatusSucceed"]


def test_a_refused_copy_warns_on_template_and_work() -> None:
    notes = announce(aggregator_of().state, seen("m1", applied=False, message="no"))
    assert [(note.kind, note.reason, note.warning) for note in notes] == [
        ("Deployment", "SyncFailed", True),
        ("Work", "SyncFailed", True),
    ]
    assert notes[1].message == f"Failed to sync work(karmada-es-m1/{WORK}) to cluster(m1), err: no"


@pytest.mark.parametrize(
    ("health", "message", "reason"),
    [
        ("Healthy", "InterpretStatus for apps/v1 Deployment: no", "ReflectStatusFailed"),
        ("Unknown", "InterpretStatus for apps/v1 Deployment: no", "ReflectStatusFailed"),
        ("Unknown", "InterpretHealth for apps/v1 Deployment: no", "InterpretHealthFailed"),
    ],
)
def test_unread_status_and_health_warn_on_the_work(health: str, message: str, reason: str) -> None:
    notes = announce(aggregator_of().state, replace(seen("m1", message=message), health=health))
    assert (notes[0].kind, notes[0].reason, notes[0].warning) == ("Work", reason, True)


def test_a_copy_that_its_cluster_keeps_warns_on_the_binding() -> None:
    aggregator = aggregator_of()
    aggregator.given(withdrawn("m1"))
    gone = aggregator.state.objects[KEY].works["m1"]
    late = announce(aggregator.state, seen("m1", applied=False, message="no"))
    assert late == []
    refused = replace(seen("m1", message="denied"), reason="AppliedFailed", work_seq=gone.seq)
    (note,) = announce(aggregator.state, refused)
    assert (note.kind, note.reason, note.warning) == ("ResourceBinding", "CleanupWorkFailed", True)


def test_applied_override_policies_become_events_once() -> None:
    aggregator = aggregator_of()
    took_part = tuple(AppliedOverride(name, Raw(b"{}")) for name in ("a", "a", "b"))
    copy = replace(work("m1"), cluster_overrides=took_part[2:], overrides=took_part)
    notes = [note for note in announce(aggregator.state, copy) if note.component == "override-manager"]
    assert {(note.reason, note.kind, note.warning) for note in notes} == {
        ("ApplyOverridePolicySucceed", "Deployment", False)
    }
    assert [note.message for note in notes] == [
        "Apply cluster override policy(b) for cluster(m1) succeed.",
        "Apply override policy(default/a) for cluster(m1) succeed.",
        "Apply override policy(default/b) for cluster(m1) succeed.",
    ]


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("OverridePolicy default/a", "override policy(default/a)"),
        ("ClusterOverridePolicy b.c", "cluster override policy(b.c)"),
    ],
)
def test_failed_override_policy_becomes_an_event(policy: str, told: str) -> None:
    problem = str(OverrideError(policy, 1, "plaintext add at /a", "no"))
    state = aggregator_of().state
    note, about, _, _ = announce(state, replace(work("m1"), problem=problem))
    assert (note.reason, note.warning) == ("ApplyOverridePolicyFailed", True)
    assert note.message == f"Apply {told} for cluster(m1) failed."
    assert (about.kind, about.reason) == ("ResourceBinding", "SyncWorkFailed")
    other = announce(state, replace(work("m1"), problem="ReviseReplica: no"))
    assert "ApplyOverridePolicyFailed" not in [note.reason for note in other]


def test_report_without_news_becomes_no_event() -> None:
    known = Before(observed=seen("m1"))
    assert announce(aggregator_of().state, seen("m1"), known) == []


def test_observation_before_its_binding_is_kept_for_it() -> None:
    aggregator, early = Harness(AGGREGATOR), Early()
    for event in (seen("m1", uid="u0", operation="created"), seen("m1", operation="created")):
        assert isinstance(event, WorkObserved)
        assert not announce(aggregator.state, event)
        assert not bound(aggregator.state, event)
        early.keep(event)
    aggregator.given(binding(2))
    assert [event.uid for event in early.take(KEY, "u1")] == ["u1"]
    assert early.take(KEY, "u1") == []

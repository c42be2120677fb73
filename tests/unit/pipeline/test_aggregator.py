"""Works and observations in, summed status out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.events.work import AppliedOverride, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._kit.delivery.lane_parts import instead_of
from services._rules.kubernetes.event_objects import event_name, event_of
from services._rules.kubernetes.patch.json_patch import merge_difference
from services._rules.overrides import OverrideError
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.decide import RollupPace, affordable_at, decide, due_at, within_bounds
from services.status_aggregator.event_announcements import Early, announce, bound, overridden
from services.status_aggregator.settings import AggregatorSettings
from services.status_aggregator.state import AggregatorState, fold
from tests.support.facts import KEY, binding, cluster, placement, template


class World:
    """An aggregator's state at the end of a log."""

    def __init__(self, *events: Known) -> None:
        self.state = AggregatorState()
        self.seq = 0
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            fold(self.state, self.seq, subject_of(event), event)

    def decides(self) -> StatusRolledUp | None:
        event = decide(self.state, KEY)
        if event is not None:
            self.given(event)
        return event


def work(name: str) -> WorkRendered:
    return WorkRendered(cluster=name, key=KEY, uid="u1", api_version="apps/v1", kind="Deployment", digest="d")


def withdrawn(name: str) -> WorkWithdrawn:
    return WorkWithdrawn(cluster=name, key=KEY, uid="u1", api_version="apps/v1", kind="Deployment")


def seen(name: str, replicas: int = 1, **fields: object) -> WorkObserved:
    status = Raw(msgspec.json.encode({"replicas": replicas}))
    event = WorkObserved(cluster=name, key=KEY, uid="u1", digest="d", applied=True, health="Healthy", status=status)
    return msgspec.structs.replace(event, **fields)


def started() -> World:
    return World(cluster("m1"), cluster("m2"), template(), binding(2), placement(m1=1, m2=1), work("m1"), work("m2"))


def test_a_copy_that_could_not_be_rendered_anew_is_not_fully_applied_and_says_why_until_it_can() -> None:
    world = started()
    world.given(seen("m1"), seen("m2"))
    applied = world.decides()
    assert applied is not None
    assert applied.fully_applied
    broken = msgspec.structs.replace(work("m2"), problem="OverridePolicy p: /spec/x is missing")
    world.given(broken)
    told = world.decides()
    assert told is not None
    assert not told.fully_applied
    assert [(item.applied, item.message) for item in told.items] == [(True, ""), (True, broken.problem)]
    assert told.items[1].status == seen("m2").status
    assert world.decides() is None
    world.given(work("m2"))
    mended = world.decides()
    assert mended is not None
    assert (mended.fully_applied, mended.items) == (True, applied.items)


def test_every_work_is_an_item_and_full_application_needs_all_of_them() -> None:
    world = started()
    first = world.decides()
    assert first is not None
    assert [(item.cluster, item.applied) for item in first.items] == [("m1", False), ("m2", False)]
    world.given(seen("m1"))
    partly = world.decides()
    assert partly is not None
    assert not partly.fully_applied
    world.given(seen("m2"))
    fully = world.decides()
    assert fully is not None
    assert fully.fully_applied
    assert world.decides() is None


def test_a_failed_copy_says_why_and_shows_no_status() -> None:
    world = started()
    world.given(seen("m1"), seen("m2", applied=False, message="quota exceeded"))
    rollup = world.decides()
    assert rollup is not None
    failed = rollup.items[1]
    assert (failed.applied, failed.message, failed.health) == (False, "quota exceeded", "Unknown")
    assert not isinstance(failed.status, Raw)


def test_reports_on_an_earlier_object_do_not_count() -> None:
    world = started()
    world.given(seen("m1", uid="old"))
    rollup = world.decides()
    assert rollup is not None
    assert not rollup.items[0].applied


def test_an_ended_binding_is_closed_once_every_copy_is_gone() -> None:
    world = started()
    world.given(seen("m1"), seen("m2"))
    world.decides()
    world.given(BindingReleased(key=KEY, uid="u1"), withdrawn("m1"), withdrawn("m2"))
    leaving = world.decides()
    assert leaving is None or not leaving.closed
    world.given(seen("m1", absent=True, applied=False))
    partly = world.decides()
    assert partly is not None
    assert [item.cluster for item in partly.items] == ["m2"]
    world.given(seen("m2", absent=True, applied=False))
    closed = world.decides()
    assert closed is not None
    assert closed.closed
    assert world.decides() is None


def test_a_removed_cluster_holds_nothing() -> None:
    world = started()
    world.given(seen("m1"), seen("m2"))
    world.decides()
    world.given(ClusterRemoved(name="m2", uid="uid-m2"))
    rollup = world.decides()
    assert rollup is not None
    assert [item.cluster for item in rollup.items] == ["m1"]


def test_facts_are_told_in_the_words_users_know() -> None:
    world = started()
    events: list[Known] = [binding(2), placement(m1=1, m2=1), work("m1"), seen("m1", operation="created")]
    notes = [announce(world.state, event) for event in events]
    assert [(note.reason, note.component) for note in notes if note is not None] == [
        ("ApplyPolicySucceed", "resource-detector"),
        ("ScheduleBindingSucceed", "default-scheduler"),
        ("SyncWorkSucceed", "binding-controller"),
        ("SyncSucceed", "execution-controller"),
    ]
    assert notes[0] is not None
    assert notes[0].message == "Apply policy(default/nginx-propagation) succeed"
    assert notes[1] is not None
    assert notes[1].message == "Binding has been scheduled successfully. Result: {m1:1, m2:1}"
    event = event_of(notes[1], first="2026-01-01T00:00:00Z", last="2026-01-01T00:00:00Z", count=1)
    assert event["involvedObject"]["uid"] == "u1"
    assert event["metadata"]["name"] == event_name(notes[1])


def test_override_policies_are_told_once_for_each_cluster() -> None:
    world = started()
    took_part = tuple(AppliedOverride(name, Raw(b"{}")) for name in ("a", "a", "b"))
    copy = msgspec.structs.replace(work("m1"), cluster_overrides=took_part[2:], overrides=took_part)
    notes = overridden(world.state, copy)
    assert {(note.reason, note.component, note.warning) for note in notes} == {
        ("ApplyOverridePolicySucceed", "override-manager", False)
    }
    assert [note.message for note in notes] == [
        "Apply cluster override policy(b) for cluster(m1) succeed.",
        "Apply override policy(default/a) for cluster(m1) succeed.",
        "Apply override policy(default/b) for cluster(m1) succeed.",
    ]
    assert overridden(world.state, work("m1")) == []


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("OverridePolicy default/a", "override policy(default/a)"),
        ("ClusterOverridePolicy b.c", "cluster override policy(b.c)"),
    ],
)
def test_an_override_that_failed_is_told_by_name(policy: str, told: str) -> None:
    problem = str(OverrideError(policy, 1, "plaintext add at /a", "no"))
    (note,) = overridden(started().state, msgspec.structs.replace(work("m1"), problem=problem))
    assert (note.reason, note.warning) == ("ApplyOverridePolicyFailed", True)
    assert note.message == f"Apply {told} for cluster(m1) failed."
    other = msgspec.structs.replace(work("m1"), problem="ReviseReplica: no")
    assert overridden(started().state, other) == []


def test_a_repeated_report_without_a_write_is_no_news() -> None:
    world = started()
    assert announce(world.state, seen("m1")) is None
    failed = announce(world.state, seen("m1", applied=False, message="no"))
    assert failed is not None
    assert failed.warning


def test_an_observation_that_comes_before_its_binding_is_told_with_it() -> None:
    world, early = World(), Early()
    for event in (seen("m1", uid="u0", operation="created"), seen("m1", operation="created")):
        assert announce(world.state, event) is None
        assert not bound(world.state, event)
        early.keep(event)
    world.given(binding(2))
    assert [event.uid for event in early.take(KEY, "u1")] == ["u1"]
    assert early.take(KEY, "u1") == []


def test_what_was_done_outlives_a_report_that_was_never_sent() -> None:
    created, ready = seen("m1", 0, operation="created"), seen("m1", 1)
    sent = instead_of(created, ready)
    assert (sent.operation, sent.status) == ("created", ready.status)
    assert instead_of(created, seen("m1", operation="updated")).operation == "created"
    assert instead_of(seen("m1", operation="updated"), created).operation == "created"
    assert instead_of(created, seen("m1", applied=False, operation="")).operation == ""
    assert instead_of(created, seen("m1", uid="u2")).operation == ""
    assert instead_of(None, ready) is ready


def test_a_merge_patch_turns_one_status_into_the_other() -> None:
    before = {"replicas": 2, "gone": 1, "nested": {"a": 1, "b": 2}, "same": [1]}
    after = {"replicas": 3, "nested": {"a": 1, "c": 3}, "same": [1]}
    assert merge_difference(before, after) == {"replicas": 3, "nested": {"b": None, "c": 3}, "gone": None}
    assert merge_difference(after, after) == {}


PACE = RollupPace(gather=0.01, settle=0.1, interval=0.02, patience=1.0)


def fresh(name: str, at: float, observed: int) -> WorkObserved:
    status = Raw(msgspec.json.encode({"generation": 1, "observedGeneration": observed}))
    return seen(name, status=status, at=at)


def test_a_sum_is_said_as_soon_as_every_cluster_looked_at_its_copy() -> None:
    world = started()
    world.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.05, 1))
    assert due_at(world.state.objects[KEY], 1000.05, PACE) <= 1000.05


def test_a_sum_waits_a_moment_for_a_cluster_that_is_about_to_say_more() -> None:
    world = started()
    world.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.0, 0))
    assert due_at(world.state.objects[KEY], 1000.0, PACE) == 1000.0 + PACE.settle
    world.given(fresh("m2", 1000.02, 1))
    assert due_at(world.state.objects[KEY], 1000.02, PACE) <= 1000.02


def test_a_copy_that_could_not_be_written_is_not_waited_for() -> None:
    world = started()
    world.given(fresh("m1", 1000.0, 1), seen("m2", applied=False, message="quota exceeded", at=1000.0))
    assert due_at(world.state.objects[KEY], 1000.0, PACE) <= 1000.0


def test_one_report_after_a_sum_waits_for_others_of_the_same_burst() -> None:
    world = started()
    world.given(fresh("m1", 1000.0, 1), fresh("m2", 1000.0, 1))
    assert world.decides() is not None
    world.given(fresh("m1", 1000.5, 1))
    assert due_at(world.state.objects[KEY], 1000.5, PACE) == 1000.5 + PACE.gather


def test_in_a_rush_each_object_is_summed_less_often() -> None:
    inside: Any = StatusAggregator(AggregatorSettings(control_kubeconfig="none"))
    assert inside._patience(10.0) == 1.0
    inside._summed.extend([10.0] * 30)
    assert inside._patience(10.5) == 10.0
    assert inside._patience(11.5) == 1.0, "the rush is over"


def test_a_sum_that_is_not_due_is_not_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[object] = []

    def counted(state: AggregatorState, key: ObjectKey) -> StatusRolledUp | None:
        worked_out.append(key)
        return decide(state, key)

    monkeypatch.setattr("services.status_aggregator.app.decide", counted)
    service = StatusAggregator(AggregatorSettings(control_kubeconfig="none", rollup_gather=1.0, rollup_settle=1.0))
    world = started()
    world.given(seen("m1", at=100.0), seen("m2", at=100.0))
    first = service.decide(world.state, KEY, 100.0)
    assert len(first.events) == 1, "both have spoken"
    world.given(*(msgspec.structs.replace(event, provenance=Provenance(decided_at=100.0)) for event in first.events))
    worked_out.clear()
    world.given(seen("m1", replicas=2, at=100.1))
    waiting = service.decide(world.state, KEY, 100.2)
    assert (waiting.wake_at, waiting.events, waiting.effects) == (101.1, (), ())
    assert worked_out == []
    due = service.decide(world.state, KEY, 101.2)
    assert len(due.events) == 1
    assert worked_out == [KEY]


def reported(name: str, **status: Any) -> WorkObserved:
    return seen(name, status=Raw(msgspec.json.encode(status)))


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"replicas": "x"}, "status.replicas: "),
        ({"replicas": -1000}, "status.replicas: "),
        ({"replicas": 2**63 - 1}, "status.replicas: "),
        ({"replicas": 999_999}, "status.replicas: "),
        ({"replicas": 1, "readyReplicas": 2}, "status.readyReplicas: "),
        ({"replicas": 1, "resourceTemplateGeneration": 2}, "status.resourceTemplateGeneration: "),
    ],
)
def test_an_implausible_report_is_told_as_that_clusters_and_the_others_count(
    status: dict[str, Any], field: str
) -> None:
    world = started()
    world.given(reported("m1", replicas=1, readyReplicas=1), reported("m2", **status))
    rollup = world.decides()
    assert rollup is not None
    whole, left = rollup.items
    assert (whole.status, whole.problem) == (reported("m1", replicas=1, readyReplicas=1).status, "")
    assert (left.status, left.health, left.applied) == (msgspec.UNSET, "Unknown", True)
    assert left.problem.startswith(field)
    assert rollup.fully_applied, "what is written there is another matter than what is said of it"
    note = announce(world.state, rollup)
    assert note is not None
    assert (note.reason, note.warning) == ("AggregateStatusFailed", True)
    assert f"cluster m2: {field}" in note.message
    world.given(reported("m1", replicas=2, readyReplicas=2))
    others = world.decides()
    assert others is not None
    assert others.items[0].status == reported("m1", replicas=2, readyReplicas=2).status
    world.given(reported("m2", replicas=1))
    mended = world.decides()
    assert mended is not None
    assert [item.problem for item in mended.items] == ["", ""]
    after = announce(world.state, mended)
    assert after is not None
    assert after.reason == "AggregateStatusSucceed"


def test_a_share_does_not_bound_what_is_overridden_or_what_a_members_autoscaler_says() -> None:
    many = reported("m1", replicas=50_000)
    overridden_copy = msgspec.structs.replace(work("m1"), overrides=(AppliedOverride("p", Raw(b"[]")),))
    retaining = {"resourcetemplate.karmada.io/retain-replicas": "true"}
    for world in (
        World(cluster("m1"), template(), binding(1), placement(m1=1), overridden_copy),
        World(
            cluster("m1"),
            msgspec.structs.replace(template(), labels={**retaining, "app": "x"}),
            binding(1),
            placement(m1=1),
            work("m1"),
        ),
    ):
        world.given(many)
        rollup = world.decides()
        assert rollup is not None
        assert rollup.items[0].problem == ""
        assert rollup.items[0].status == many.status


def test_replicas_that_are_still_leaving_after_a_scaling_down_count() -> None:
    world = World(cluster("m1"), template(), binding(50_000), placement(m1=50_000), work("m1"))
    world.given(reported("m1", replicas=50_000))
    world.decides()
    world.given(placement(m1=3), reported("m1", replicas=49_000))
    rollup = world.decides()
    assert rollup is not None
    assert rollup.items[0].problem == ""
    world.given(reported("m1", replicas=50_000))
    back = world.decides()
    assert back is not None
    assert back.items[0].problem.startswith("status.replicas: is 50000, but at most 49000")


def test_a_report_about_a_work_that_was_not_read_yet_may_be_about_a_newer_template() -> None:
    world = started()
    newer = {"replicas": 1, "resourceTemplateGeneration": 2}
    world.given(seen("m1", work_seq=100, status=Raw(msgspec.json.encode(newer))))
    rollup = world.decides()
    assert rollup is not None
    assert rollup.items[0].problem == ""


def test_a_status_that_could_not_be_read_leaves_the_one_before_and_says_so() -> None:
    world = started()
    world.given(seen("m1", message="InterpretStatus for apps/v1 Deployment: no"), seen("m2"))
    rollup = world.decides()
    assert rollup is not None
    assert rollup.items[0].status == seen("m1").status
    assert rollup.items[0].problem.startswith("InterpretStatus for")
    note = announce(world.state, rollup)
    assert note is not None
    assert "cluster m1: InterpretStatus" in note.message


def test_the_statuses_of_a_rollup_fit_into_one_message() -> None:
    big = reported("m1", text="x" * 900_000)
    items = [ClusterStatusItem(cluster=f"m{number}", applied=True, status=big.status) for number in range(9)]
    small = ClusterStatusItem(cluster="m9", applied=True, status=reported("m9", replicas=1).status)
    kept = within_bounds([*items, small])
    assert kept[-1] == small
    assert sum(isinstance(item.status, Raw) for item in kept) == 5
    assert all(item.problem.startswith("status: has 9000") for item in kept if not isinstance(item.status, Raw))
    assert within_bounds(items[:4]) == tuple(items[:4])


def sums_in(seconds: float, size: int, every: float) -> list[float]:
    """When sums are said of an object whose member reports another status of this size all the time."""
    world, pace, now, said = started(), RollupPace(0.03, 0.02, 1.0, 0.06), 1000.0, []
    while now < 1000.0 + seconds:
        world.given(reported("m1", text="x" * size, now=now), seen("m2", at=now))
        known = world.state.objects[KEY]
        if now >= due_at(known, now, pace):
            event = decide(world.state, KEY)
            assert event is not None
            world.given(msgspec.structs.replace(event, provenance=Provenance(decided_at=now)))
            said.append(now)
        now += every
    return said


def test_the_first_changes_are_said_at_once_and_lasting_change_once_per_second() -> None:
    said = sums_in(60.0, 100, every=0.05)
    assert said[9] - said[0] < 1.0
    assert 60 <= len(said) <= 75
    assert all(0.9 < after - before < 1.2 for before, after in pairwise(said[20:]))


def test_a_large_status_that_changes_all_the_time_is_said_seldom() -> None:
    said = sums_in(600.0, 900_000, every=0.25)
    assert len(said) * 900_000 / 600 < 140_000, "bytes per second"
    assert all(after - before < 7.5 for before, after in pairwise(said))
    quiet = started()
    quiet.given(reported("m1", text="x" * 900_000), seen("m2"))
    first = quiet.decides()
    assert first is not None
    assert affordable_at(quiet.state.objects[KEY], 10.0) <= 10.0


def test_what_was_said_too_much_is_forgotten_after_one_wait() -> None:
    world, now = started(), 1000.0

    def says(size: int) -> None:
        world.given(reported("m1", text="x" * size, now=now), seen("m2", at=now))
        event = decide(world.state, KEY)
        assert event is not None
        world.given(msgspec.structs.replace(event, provenance=Provenance(decided_at=now)))

    for more in range(10):
        says(900_000 + more)
    assert affordable_at(world.state.objects[KEY], now) == now + 7.0
    now += 7.0
    says(10)
    assert affordable_at(world.state.objects[KEY], now) < now + 1.1


def test_a_stamp_from_the_future_holds_up_no_sum() -> None:
    world = started()
    for number in range(30):
        world.given(reported("m1", replicas=number % 2), seen("m2"))
        event = decide(world.state, KEY)
        assert event is not None
        world.given(msgspec.structs.replace(event, provenance=Provenance(decided_at=5000.0)))
    known = world.state.objects[KEY]
    assert affordable_at(known, 5000.0) > 5000.0
    assert affordable_at(known, 1400.0) == 0.0

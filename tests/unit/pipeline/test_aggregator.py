"""Works and observations in, summed status out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.events.observed import WorkObserved
from schemas.events.rollup import ClusterStatusItem
from schemas.events.work import AppliedOverride
from services._kit.delivery.lane_parts import instead_of
from services._rules.kubernetes.event_objects import Note
from services._rules.kubernetes.patch.json_patch import merge_difference
from services.status_aggregator.decide import within_bounds
from services.status_aggregator.event_announcements import announce
from tests.support.facts import (
    binding,
    cluster,
    placement,
    raw,
    released,
    removed,
    seen,
    template,
    withdrawn,
    work,
)
from tests.support.harness import aggregator_of


def noted(notes: Sequence[Note]) -> Note:
    """The Event on the binding; the template has the same."""
    about, template = notes
    where = {"key": template.key, "uid": template.uid, "api_version": template.api_version, "kind": template.kind}
    assert replace(about, **where) == template
    return about


def test_render_problem_is_shown_until_it_is_solved() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1"), seen("m2"))
    applied = aggregator.decides()
    assert applied.fully_applied
    broken = replace(work("m2"), problem="OverridePolicy p: /spec/x is missing")
    aggregator.given(broken)
    told = aggregator.decides()
    assert not told.fully_applied
    assert [(item.applied, item.message) for item in told.items] == [(True, ""), (True, broken.problem)]
    assert told.items[1].status == seen("m2").status
    assert aggregator.decides() is None
    aggregator.given(work("m2"))
    mended = aggregator.decides()
    assert (mended.fully_applied, mended.items) == (True, applied.items)


def test_fully_applied_needs_every_work() -> None:
    aggregator = aggregator_of()
    first = aggregator.decides()
    assert [(item.cluster, item.applied) for item in first.items] == [("m1", False), ("m2", False)]
    aggregator.given(seen("m1"))
    partly = aggregator.decides()
    assert not partly.fully_applied
    aggregator.given(seen("m2"))
    fully = aggregator.decides()
    assert fully.fully_applied
    assert aggregator.decides() is None


def test_failed_copy_has_a_message_and_no_status() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1"), seen("m2", applied=False, message="quota exceeded"))
    rollup = aggregator.decides()
    failed = rollup.items[1]
    assert (failed.applied, failed.message, failed.health) == (False, "quota exceeded", "Unknown")
    assert not isinstance(failed.status, Raw)


def test_reports_on_another_uid_do_not_count() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1", uid="old"))
    rollup = aggregator.decides()
    assert not rollup.items[0].applied


def test_rollup_closes_once_every_copy_is_gone() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1"), seen("m2"))
    aggregator.decides()
    aggregator.given(released(), withdrawn("m1"), withdrawn("m2"))
    leaving = aggregator.decides()
    assert leaving is None or not leaving.closed
    aggregator.given(seen("m1", absent=True, applied=False))
    partly = aggregator.decides()
    assert [item.cluster for item in partly.items] == ["m2"]
    aggregator.given(seen("m2", absent=True, applied=False))
    closed = aggregator.decides()
    assert closed.closed
    assert aggregator.decides() is None


def test_removed_cluster_has_no_item() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1"), seen("m2"))
    aggregator.decides()
    aggregator.given(removed("m2"))
    rollup = aggregator.decides()
    assert [item.cluster for item in rollup.items] == ["m1"]


def test_operation_of_an_unsent_report_is_kept() -> None:
    created, ready = seen("m1", 0, operation="created"), seen("m1", 1)
    sent = instead_of(created, ready)
    assert (sent.operation, sent.status) == ("created", ready.status)
    assert instead_of(created, seen("m1", operation="updated")).operation == "created"
    assert instead_of(seen("m1", operation="updated"), created).operation == "created"
    assert instead_of(created, seen("m1", applied=False, operation="")).operation == ""
    assert instead_of(created, seen("m1", uid="u2")).operation == ""
    assert instead_of(None, ready) is ready


def test_merge_patch_turns_one_status_into_the_other() -> None:
    before = {"replicas": 2, "gone": 1, "nested": {"a": 1, "b": 2}, "same": [1]}
    after = {"replicas": 3, "nested": {"a": 1, "c": 3}, "same": [1]}
    assert merge_difference(before, after) == {"replicas": 3, "nested": {"b": None, "c": 3}, "gone": None}
    assert merge_difference(after, after) == {}


def reported(name: str, **status: Any) -> WorkObserved:
    return seen(name, status=raw(status))


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"replicas": 999_999}, "status.replicas: "),
        ({"replicas": 1, "resourceTemplateGeneration": 2}, "status.resourceTemplateGeneration: "),
    ],
)
def test_implausible_report_is_left_out_and_named(status: dict[str, Any], field: str) -> None:
    aggregator = aggregator_of()
    aggregator.given(reported("m1", replicas=1, readyReplicas=1), reported("m2", **status))
    rollup = aggregator.decides()
    whole, left = rollup.items
    assert (whole.status, whole.problem) == (reported("m1", replicas=1, readyReplicas=1).status, "")
    assert (left.status, left.health, left.applied) == (msgspec.UNSET, "Unknown", True)
    assert left.problem.startswith(field)
    assert rollup.fully_applied, "what is written there is another matter than what is said of it"
    note = noted(announce(aggregator.state, rollup))
    assert (note.reason, note.warning) == ("AggregateStatusFailed", True)
    assert f"cluster m2: {field}" in note.message
    aggregator.given(reported("m1", replicas=2, readyReplicas=2))
    others = aggregator.decides()
    assert others.items[0].status == reported("m1", replicas=2, readyReplicas=2).status
    aggregator.given(reported("m2", replicas=1))
    mended = aggregator.decides()
    assert [item.problem for item in mended.items] == ["", ""]
    after = noted(announce(aggregator.state, mended))
    assert after.reason == "AggregateStatusSucceed"


def test_overridden_or_retained_replicas_are_not_bounded() -> None:
    many = reported("m1", replicas=50_000)
    overridden_copy = replace(work("m1"), overrides=(AppliedOverride("p", Raw(b"[]")),))
    retaining = {"resourcetemplate.karmada.io/retain-replicas": "true"}
    for aggregator in (
        aggregator_of(cluster("m1"), template(), binding(1), placement(m1=1), overridden_copy),
        aggregator_of(
            cluster("m1"),
            replace(template(), labels={**retaining, "app": "x"}),
            binding(1),
            placement(m1=1),
            work("m1"),
        ),
    ):
        aggregator.given(many)
        rollup = aggregator.decides()
        assert rollup is not None
        assert rollup.items[0].problem == ""
        assert rollup.items[0].status == many.status


def test_replicas_still_leaving_after_scale_down_count() -> None:
    aggregator = aggregator_of(cluster("m1"), template(), binding(50_000), placement(m1=50_000), work("m1"))
    aggregator.given(reported("m1", replicas=50_000))
    aggregator.decides()
    aggregator.given(placement(m1=3), reported("m1", replicas=49_000))
    rollup = aggregator.decides()
    assert rollup.items[0].problem == ""
    aggregator.given(reported("m1", replicas=50_000))
    back = aggregator.decides()
    assert back.items[0].problem.startswith("status.replicas: is 50000, but at most 49000")


def test_report_on_a_work_not_read_yet_is_plausible() -> None:
    aggregator = aggregator_of()
    newer = {"replicas": 1, "resourceTemplateGeneration": 2}
    aggregator.given(seen("m1", work_seq=100, status=raw(newer)))
    rollup = aggregator.decides()
    assert rollup.items[0].problem == ""


def test_uninterpretable_status_keeps_the_one_before() -> None:
    aggregator = aggregator_of()
    aggregator.given(seen("m1", message="InterpretStatus for apps/v1 Deployment: no"), seen("m2"))
    rollup = aggregator.decides()
    assert rollup.items[0].status == seen("m1").status
    assert rollup.items[0].problem.startswith("InterpretStatus for")
    note = noted(announce(aggregator.state, rollup))
    assert "cluster m1: InterpretStatus" in note.message


def test_statuses_of_a_rollup_fit_into_one_message() -> None:
    big = reported("m1", text="x" * 900_000)
    items = [ClusterStatusItem(cluster=f"m{number}", applied=True, status=big.status) for number in range(9)]
    small = ClusterStatusItem(cluster="m9", applied=True, status=reported("m9", replicas=1).status)
    kept = within_bounds([*items, small])
    assert kept[-1] == small
    assert sum(isinstance(item.status, Raw) for item in kept) == 5
    assert all(item.problem.startswith("status: has 9000") for item in kept if not isinstance(item.status, Raw))
    assert within_bounds(items[:4]) == tuple(items[:4])

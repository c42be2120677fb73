"""What answers of scripts and webhooks may make of a delivery, and what stays when there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.delivery.apply import (
    LARGEST_STATUS,
    Leave,
    Refuse,
    Replace,
    ReportedStatus,
    apply_action,
    collectable,
    merge,
    not_interpreted,
    reflect,
    retained,
)
from services._rules.interpreter import InterpretError, Operation

MANAGED = {const.MANAGED_LABEL: const.LABEL_TRUE}


def widget(size: int = 1, *, metadata: Manifest | None = None, **members: Any) -> Manifest:
    found: Manifest = {"name": "w", "namespace": "default", "labels": dict(MANAGED), **(metadata or {})}
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": found, "spec": {"size": size}, **members}


LIVE = widget(5, metadata={"uid": "u", "resourceVersion": "7"}, status={"phase": "Up"})


def test_retained_object_is_what_the_script_answered() -> None:
    answer = retained({**merge(widget(1), LIVE), "spec": {"size": 5}}, merge(widget(1), LIVE))
    assert apply_action(widget(1), LIVE, "m1", None, answer) == Leave()
    action = apply_action(widget(1), LIVE, "m1", None, {**answer, "spec": {"size": 3}})
    assert isinstance(action, Replace)
    assert action.manifest["spec"] == {"size": 3}


def test_without_a_script_the_desired_size_is_written() -> None:
    action = apply_action(widget(1), LIVE, "m1")
    assert isinstance(action, Replace)
    assert action.manifest["spec"] == {"size": 1}


def test_unmanaged_object_is_refused_whatever_the_answer() -> None:
    foreign = {**LIVE, "metadata": {**LIVE["metadata"], "labels": {}}}
    assert isinstance(apply_action(widget(1), foreign, "m1", None, widget(1)), Refuse)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "Gadget"}, "kind"),
        ({"apiVersion": "example.io/v2"}, "apiVersion"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {**LIVE["metadata"], "name": "x"}}, "metadata.name"),
        ({"metadata": {**LIVE["metadata"], "namespace": "kube-system"}}, "metadata.namespace"),
        ({"metadata": {**LIVE["metadata"], "labels": {}}}, "metadata.labels"),
        ({"metadata": {**LIVE["metadata"], "labels": []}}, "metadata.labels"),
    ],
)
def test_answer_about_another_or_unmanaged_object_is_an_error(change: Manifest, field: str) -> None:
    merged = merge(widget(1), LIVE)
    with pytest.raises(InterpretError) as caught:
        retained({**merged, **change}, merged)
    assert caught.value.field == field


@pytest.mark.parametrize("version", [None, "1", 9])
def test_write_keeps_the_observed_resource_version(version: Any) -> None:
    merged = merge(widget(1), LIVE)
    answer = {**merged, "metadata": {**merged["metadata"], "resourceVersion": version}}
    assert retained(answer, merged)["metadata"]["resourceVersion"] == "7"


def test_status_and_health_come_from_where_they_are_offered() -> None:
    assert reflect(LIVE).status == {"phase": "Up"}
    told = reflect(LIVE, ReportedStatus(Raw(b'{"a":1}')), ReportedStatus(False))
    assert (bytes(told.status), told.health, told.problem, told.unread) == (b'{"a":1}', "Unhealthy", "", False)
    assert reflect(LIVE, None, ReportedStatus(True)).status == {"phase": "Up"}
    assert reflect(LIVE, ReportedStatus(None), None).health == "Healthy"


def test_failed_health_interpretation_is_unknown_with_reason() -> None:
    found = reflect(LIVE, None, ReportedStatus(problem="no", passing=True))
    assert (found.health, found.problem, found.unread, found.passing) == ("Unknown", "no", False, True)


def test_failed_status_interpretation_keeps_last_status() -> None:
    found = reflect(LIVE, ReportedStatus(problem="no"), ReportedStatus(True))
    assert (found.health, found.problem, found.unread, found.passing) == ("Healthy", "no", True, False)


def test_unreadable_native_status_keeps_last_status() -> None:
    live = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {}, "status": []}
    found = reflect(live)
    assert found.unread
    assert "status" in found.problem


def test_a_status_has_one_form_whatever_the_order_of_its_names() -> None:
    assert collectable({"b": {"y": 1, "x": 2}, "a": 3}) == collectable({"a": 3, "b": {"x": 2, "y": 1}})


@pytest.mark.parametrize("status", [[1], "Up", 3, True, {"text": "x" * LARGEST_STATUS}])
def test_malformed_status_is_not_collected(status: Any) -> None:
    with pytest.raises(InterpretError):
        collectable(status)


def test_a_status_may_be_as_large_as_is_said() -> None:
    text = "x" * (LARGEST_STATUS - len(msgspec.json.encode({"text": ""})))
    assert len(bytes(collectable({"text": text}))) == LARGEST_STATUS


def test_failure_names_operation_kind_cluster_and_remedy() -> None:
    text = not_interpreted(Operation.RETAIN, LIVE, "m1", "line 3: oh")
    for word in (
        Operation.RETAIN,
        "example.io/v1 Widget",
        "cluster m1",
        "line 3: oh",
        "left as it is",
        "correct the script",
    ):
        assert word in text
    assert "left as it is" not in not_interpreted(Operation.STATUS, LIVE, "m1", "oh")
    assert len(not_interpreted(Operation.RETAIN, LIVE, "m1", "x" * 1_000_000)) < 5000

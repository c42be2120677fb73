"""The checker of exported Services finds endpoints that were lost or are left over, and writes without a reason."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.endpoints import EndpointConditions, SliceEndpoint
from schemas.events.endpoints import EndpointsCollected, EndpointsEvent, EndpointsReleased
from tests.faults.checker_services import content, differences, facts, rewritten


def collected(*addresses: str, kept: str = "") -> EndpointsCollected:
    """A fact; an address with a minus in front is not ready."""
    endpoints = tuple(
        SliceEndpoint((text.removeprefix("-"),), EndpointConditions(ready=not text.startswith("-")))
        for text in addresses
    )
    return EndpointsCollected(
        cluster="m1", namespace="d", name="a", service="web", address_type="IPv4", endpoints=endpoints, kept=kept
    )


def released(reason: str = "why", *, gated: bool = False) -> EndpointsReleased:
    return EndpointsReleased(cluster="m1", namespace="d", name="a", service="web", reason=reason, gated=gated)


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], None),
        ([collected("x", "-y")], {"x": True, "y": False}),
        ([collected("x"), collected("x", kept="why"), released(gated=True), collected("x")], {"x": True}),
        ([collected("x"), released()], None),
    ],
)
def test_facts_that_tell_what_happened_are_right(events: list[EndpointsEvent], wanted: Any) -> None:
    assert facts(events, wanted) == []


@pytest.mark.parametrize(
    ("events", "wanted", "words"),
    [
        ([], {"x": True}, "no fact tells"),
        ([collected("x"), collected("x")], {"x": True}, "says what the fact before it said"),
        ([collected("x"), released("")], None, "has no reason"),
        ([collected("x"), released()], {"x": True}, "is the last fact"),
        ([collected("x")], None, "is the last fact"),
        ([collected("x")], {"x": False}, "is the last fact"),
        ([collected("x")], {"x": True, "y": True}, "is the last fact"),
    ],
)
def test_facts_that_are_not_right_are_found(events: list[EndpointsEvent], wanted: Any, words: str) -> None:
    (found,) = facts(events, wanted)
    assert words in found


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [
        ({"a": {"x": True}}, {}, "is lost"),
        ({}, {"a": {"x": True}}, "is left over"),
        ({"a": {"x": True}}, {"a": {"x": False}}, "it should have"),
    ],
)
def test_slices_that_differ_are_found(wanted: Any, found: Any, words: str) -> None:
    (complaint,) = differences("m2", wanted, found)
    assert words in complaint
    assert differences("m2", wanted, wanted) == []


def test_writes_without_a_fact_are_found() -> None:
    record = {
        "resource": "endpointslices",
        "namespace": "d",
        "name": "imported-m1-a",
        "user": "fleetlog:networking",
        "verb": "update",
        "changed": True,
    }
    others = [
        {**record, "user": "people"},
        {**record, "namespace": "e"},
        {**record, "changed": False},
        {**record, "verb": "delete"},
    ]
    assert rewritten([record, *others], "d", {"imported-m1-a": 1}) == []
    assert "written 2 times" in rewritten([record, record], "d", {"imported-m1-a": 1})[0]


def test_an_endpoint_of_which_nothing_is_said_is_ready() -> None:
    manifest = {"endpoints": [{"addresses": ["x"]}, {"addresses": ["y"], "conditions": {"ready": False}}]}
    assert content(manifest) == {"x": True, "y": False}
    assert content({"endpoints": None}) == {}

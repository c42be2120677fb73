"""What a registry says of members that forbid what it selects: bounded, and only what is known."""

from __future__ import annotations

from typing import Any

from services._rules.delivery.member_address import Access
from services.search.registries.member_facts import Gvr, MemberFacts
from services.search.registries.refused_reads import CONDITION, Reading, Said, due, note_of, said_of, with_said
from services.search.registries.wanted_kinds import Registry, registry_of

PODS, APPS = Gvr("", "v1", "pods"), Gvr("apps", "v1", "deployments")
KINDS = {("v1", "Pod"): PODS, ("apps/v1", "Deployment"): APPS}
READABLE = Said("True", "Readable", "members let search read what this registry selects")


def registry(*kinds: tuple[str, str], said: Said | None = None, **target: Any) -> Registry:
    selectors = [{"apiVersion": version, "kind": kind} for version, kind in kinds]
    manifest: dict[str, Any] = {
        "metadata": {"name": "r", "uid": "u"},
        "spec": {"targetCluster": target, "resourceSelectors": selectors},
    }
    if said is not None:
        manifest["status"] = {"conditions": with_said([], said, "then")}
    return registry_of(manifest)


def members(*names: str) -> list[MemberFacts]:
    return [MemberFacts(name=name, access=Access(uid=name, mode="Push"), ready=True, kinds=KINDS) for name in names]


def refusing(*gvrs: Gvr) -> Reading:
    return Reading(refused=dict.fromkeys(gvrs, "forbidden"))


def test_members_and_kinds_are_named_with_the_answer() -> None:
    found = due(registry(*KINDS), members("m2", "m1"), {"m1": refusing(PODS, APPS), "m2": refusing(APPS)})
    message = "search may not read in m1: v1/pods, apps/v1/deployments (forbidden); m2: apps/v1/deployments (forbidden)"
    assert found == Said("False", "ForbiddenByMembers", message)
    assert note_of(registry(), found).warning


def test_what_is_not_selected_is_no_matter() -> None:
    readings = {"m1": refusing(APPS), "m2": Reading(frozenset((PODS,)))}
    assert due(registry(("v1", "Pod"), clusterNames=["m2"]), members("m1", "m2"), readings) is None
    assert due(registry(("apps/v1", "Deployment"), clusterNames=["m2"]), members("m1", "m2"), readings) is None


def test_a_condition_ends_once_all_can_be_read() -> None:
    before = registry(("v1", "Pod"), said=Said("False", "ForbiddenByMembers", "x"))
    read = Reading(frozenset((PODS,)))
    assert due(before, members("m1", "m2"), {"m1": read}) is None
    assert due(before, members("m1", "m2"), {"m1": read, "m2": read}) == READABLE
    assert due(before, [], {}) == READABLE
    assert due(registry(("v1", "Pod")), members("m1"), {"m1": read}) is None


def test_messages_are_bounded() -> None:
    names = [f"m{number:04}" for number in range(2000)]
    reading = Reading(refused={PODS: "f" * 5000})
    found = due(registry(("v1", "Pod")), members(*names), dict.fromkeys(names, reading))
    assert found is not None
    assert len(found.message) < 1024
    assert found.message.endswith("; and 1995 more members")


def test_conditions_of_others_stay() -> None:
    other = {"type": "Other", "status": "True"}
    first = with_said([other], Said("False", "ForbiddenByMembers", "x"), "1")
    again = with_said(first, Said("False", "ForbiddenByMembers", "y"), "2")
    assert [one["type"] for one in again] == ["Other", CONDITION]
    assert again[1]["lastTransitionTime"] == "1"
    assert with_said(again, READABLE, "3")[1]["lastTransitionTime"] == "3"
    assert said_of(again) == Said("False", "ForbiddenByMembers", "y")
    assert said_of([other]) is None

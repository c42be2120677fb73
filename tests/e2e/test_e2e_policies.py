"""Policies through kubectl: which templates one claims, which clusters it allows, and when its changes take effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules import constants as const
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import Space, clusters

pytestmark = pytest.mark.xdist_group("policies")

PROVIDERS = {"member1": "own", "member2": "rented", "member3": "rented"}


@pytest.fixture
def placed(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own, while the members have providers."""
    with namespace(fleet, request.node.name) as made:
        for member, provider in PROVIDERS.items():
            made.control.patch("cluster", member, {"spec": {"provider": provider}})
        yield made
        for member in PROVIDERS:
            made.control.patch("cluster", member, {"spec": {"provider": None}})


def configuration(space: Space, name: str, **labels: str) -> Manifest:
    """A ConfigMap in the control plane."""
    settings = space.load("settings.yaml")
    settings["metadata"] |= {"name": name, "labels": labels}
    return space.apply(settings)


def policy(
    space: Space, name: str, selector: Manifest, placement: Manifest, kind: str = "PropagationPolicy", **spec: Any
) -> Manifest:
    """A policy of this name that selects ConfigMaps."""
    place = {"namespace": space.name} if kind == "PropagationPolicy" else {}
    return space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, **place},
            "spec": {
                "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", **selector}],
                "placement": placement,
                **spec,
            },
        }
    )


def holder(space: Space, name: str) -> str:
    """Name of the policy that claimed a ConfigMap."""
    held = space.control.get("configmap", name, space.name) or {}
    notes = (held.get("metadata") or {}).get("annotations") or {}
    return str(
        notes.get(const.PROPAGATION_POLICY_NAME_ANNOTATION)
        or notes.get(const.CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
        or ""
    )


def _field(key: str, operator: str, *values: str) -> Manifest:
    return {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


def test_the_next_affinity_group_is_a_fallback(placed: Space) -> None:
    groups = [
        {"affinityName": "own", **_field("provider", "In", "own")},
        {"affinityName": "rented", **_field("provider", "In", "rented")},
    ]
    configuration(placed, "grouped")
    policy(placed, "grouped", {"name": "grouped"}, {"clusterAffinities": groups})
    placed.until_in("configmap", "grouped", ("member1",))
    until_equal("the group in use", lambda: observed(placed, "grouped"), "own")
    policy(
        placed,
        "grouped",
        {"name": "grouped"},
        {"clusterAffinities": [{**groups[0], "exclude": ["member1"]}, groups[1]]},
    )
    placed.until_in("configmap", "grouped", ("member2", "member3"))
    until_equal("the group in use", lambda: observed(placed, "grouped"), "rented")


def observed(space: Space, name: str) -> object:
    binding = space.control.get("rb", f"{name}-configmap", space.name) or {}
    return (binding.get("status") or {}).get("schedulerObservingAffinityName")


@pytest.mark.main_path
def test_priority_then_precision_then_name_decide(space: Space) -> None:
    anything: Manifest = {}
    named: Manifest = {"name": "wanted"}
    labelled = {"labelSelector": {"matchLabels": {"team": "red"}}}
    policy(space, "low", named, clusters("member1"), priority=5)
    policy(space, "high", anything, clusters("member2"), priority=10)
    for name, selector in (
        ("c-any", anything),
        ("b-label", labelled),
        ("a-label", labelled),
        ("z-name", {"name": "only"}),
    ):
        policy(space, name, selector, clusters("member3"), priority=20)
    # Policies and objects are watched apart: once the last policy has its object, the others are known.
    configuration(space, "last")
    policy(space, "last", {"name": "last"}, clusters("member3"), priority=30, preemption="Always")
    until_equal("policy of the last", lambda: holder(space, "last"), "last")
    configuration(space, "only", team="red")
    until_equal("policy of a name", lambda: holder(space, "only"), "z-name")
    configuration(space, "label", team="red")
    until_equal("policy of a label", lambda: holder(space, "label"), "a-label")
    configuration(space, "kind")
    until_equal("policy of a kind", lambda: holder(space, "kind"), "c-any")
    for name in ("c-any", "b-label", "a-label", "z-name"):
        space.control.delete("propagationpolicy", name, space.name)
    configuration(space, "wanted")
    until_equal("policy of the higher priority", lambda: holder(space, "wanted"), "high")
    space.until_in("configmap", "wanted", ("member2",))


def test_suspension_withholds_updates_where_it_says(space: Space) -> None:
    settings = configuration(space, "paused")
    policy(space, "paused", {"name": "paused"}, clusters("member1", "member2"))
    space.until_in("configmap", "paused", ("member1", "member2"))
    held: tuple[tuple[Manifest | None, dict[str, str]], ...] = (
        ({"dispatchingOnClusters": {"clusterNames": ["member2"]}}, {"member1": "one", "member2": "green"}),
        ({"dispatching": True}, {"member1": "one", "member2": "green"}),
        (None, {"member1": "three", "member2": "three"}),
    )
    for colour, (suspension, wanted) in zip(("one", "two", "three"), held, strict=True):
        policy(space, "paused", {"name": "paused"}, clusters("member1", "member2"), suspension=suspension)
        until_equal("suspension of the binding", lambda: suspended(space, "paused"), suspension)
        settings["data"]["colour"] = colour
        space.apply(settings)
        until("the delivery of the change", lambda wanted=colour: dispatched(space, "paused", wanted))
        for member, value in wanted.items():
            space.until_field(member, "configmap", "paused", "data.colour", value)


def suspended(space: Space, name: str) -> object:
    binding = space.control.get("rb", f"{name}-configmap", space.name) or {}
    return (binding.get("spec") or {}).get("suspension")


def dispatched(space: Space, name: str, colour: str) -> bool:
    """Whether the Works of both members hold the present content."""
    found = 0
    for member in ("member1", "member2"):
        for work in space.control.items("works", f"karmada-es-{member}"):
            for manifest in work["spec"]["workload"]["manifests"]:
                metadata = manifest["metadata"]
                if (metadata.get("namespace"), metadata["name"]) == (space.name, name):
                    found += manifest["data"]["colour"] == colour or work["spec"].get("suspendDispatching", False)
    return found == 2


def test_copies_stay_when_deletion_preserves_them(space: Space) -> None:
    for name, preserve in (("kept", True), ("gone", False)):
        configuration(space, name)
        policy(space, name, {"name": name}, clusters("member1"), preserveResourcesOnDeletion=preserve)
        space.until_in("configmap", name, ("member1",))
    for name in ("kept", "gone"):
        space.control.delete("configmap", name, space.name)
    space.until_in("configmap", "gone", ())
    until_equal("the label of management", lambda: managed(space, "kept"), False)
    assert space.where("configmap", "kept") == ["member1"]
    space.member["member1"].delete("configmap", "kept", space.name)


def managed(space: Space, name: str) -> bool:
    held = space.held("member1", "configmap", name) or {}
    return const.MANAGED_LABEL in (held["metadata"].get("labels") or {})


@pytest.mark.main_path
def test_a_policy_preempts_others(space: Space) -> None:
    settings = configuration(space, "taken")
    selector = {"name": "taken", "namespace": space.name}
    policy(space, f"{space.name}-wide", selector, clusters("member1"), "ClusterPropagationPolicy", priority=9)
    space.until_in("configmap", "taken", ("member1",))
    policy(space, "same", {"name": "taken"}, clusters("member3"))
    policy(space, "taker", {"name": "taken"}, clusters("member2"), preemption="Always")
    space.until_in("configmap", "taken", ("member2",))
    assert holder(space, "taken") == "taker"
    until("Event of the preemption", lambda: "PreemptPolicySucceed" in {event[1] for event in space.events("taken")})
    policy(space, "equal", {"name": "taken"}, clusters("member3"), preemption="Always")
    policy(space, "taker", {"name": "taken"}, clusters("member2"), preemption="Always", priority=-1)
    space.until_in("configmap", "taken", ("member3",))
    assert holder(space, "taken") == "equal"
    space.control.delete("configmap", settings["metadata"]["name"], space.name)
    space.control.delete("clusterpropagationpolicy", f"{space.name}-wide")


def test_a_policy_says_why_it_has_no_effect(space: Space) -> None:
    configuration(space, "settings")
    policy(space, "wrong", {"apiVersion": "v2", "name": "settings"}, clusters("member1"))
    told = until("Event of the policy", lambda: [event for event in space.events("wrong") if "v2" in event[2]])
    assert "it serves ConfigMap in v1" in told[0][2]


def test_a_policy_places_an_opted_out_namespace(fleet: Fleet) -> None:
    with namespace(fleet, "placed-namespace", everywhere=False) as space:
        name = f"{space.name}-placed"
        labels = {const.SKIP_AUTO_PROPAGATION_LABEL: "true"}
        selector = {"kind": "Namespace", "name": name}
        policy(space, name, selector, clusters("member2"), "ClusterPropagationPolicy")
        space.control.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        until_equal("members with it", lambda: space.where("namespace", name), ["member2"])
        space.control.run("delete", "namespace", name, "--wait=false")
        until_equal("members with it", lambda: space.where("namespace", name), [])
        space.control.delete("clusterpropagationpolicy", name)


def test_a_priority_class_gives_the_binding_its_priority(space: Space) -> None:
    web = space.apply(space.load("web.yaml"))
    source = {"priorityClassSource": "KubePriorityClass", "priorityClassName": space.name}
    space.policy(web, clusters("member1"), schedulePriority=source)
    until("a warning about the class", lambda: [told for told in space.events("web") if told[1] == "ApplyPolicyFailed"])
    assert space.control.get("rb", "web-deployment", space.name) is None
    space.control.run("create", "priorityclass", space.name, "--value=1000")

    def priority() -> object:
        binding = space.control.get("rb", "web-deployment", space.name) or {}
        return (binding.get("spec") or {}).get("schedulePriority")

    until_equal("priority of the binding", priority, {"priority": 1000})
    space.until_in("deployment", "web", ("member1",))
    space.control.delete("priorityclass", space.name)

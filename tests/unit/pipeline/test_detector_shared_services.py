"""A Service that a MultiClusterService takes over: its claim, its binding, and what stays when that ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services.detector import state as det
from tests.support.facts import cluster, removed
from tests.support.policy_world import PolicyWorld, policy_key

KEY = ObjectKey("", "services", "default", "web")
OTHER = {"apiVersion": "v1", "kind": "Service"}


class ServiceWorld(PolicyWorld):
    """A control plane with Services beside its policies."""

    def __init__(self, *members: str, **options: Any) -> None:
        super().__init__(**options)
        self.join(*members)

    def key(self, name: str) -> ObjectKey:
        return ObjectKey("", "services", "default", name)

    def join(self, *members: str) -> None:
        for name in members:
            self._mark(det.fold(self.state, 0, f"cluster.{name}", cluster(name)))

    def leave(self, name: str) -> None:
        self._mark(det.fold(self.state, 0, f"cluster.{name}", removed(name)))

    def serves(self, name: str = "web", **metadata: Any) -> None:
        meta = {"name": name, "namespace": "default", "uid": self._uid(), **metadata}
        self._set_template(self.key(name), {**OTHER, "metadata": meta, "spec": {"ports": [{"port": 80}]}})

    def shares(self, providers: tuple[str, ...] = (), consumers: tuple[str, ...] = (), **spec: Any) -> None:
        named = {"providerClusters": providers, "consumerClusters": consumers}
        sides = {side: [{"name": name} for name in names] for side, names in named.items()}
        self.applies("mcs/web", **{"types": ["CrossCluster"], **sides, **spec})

    def marks(self) -> tuple[Manifest, Manifest]:
        metadata = self.template("web")["metadata"]
        return metadata.get("labels") or {}, metadata.get("annotations") or {}

    def placed(self) -> list[str]:
        names: list[str] = self.spec("web")["placement"]["clusterAffinity"]["clusterNames"]
        return names


def world(*members: str, providers: tuple[str, ...] = ("m1",), consumers: tuple[str, ...] = ("m2",)) -> ServiceWorld:
    made = ServiceWorld(*members)
    made.serves()
    made.shares(providers, consumers)
    made.settles()
    return made


def test_the_service_bears_the_claim_and_no_other() -> None:
    made = ServiceWorld("m1")
    made.applies("pp/all", OTHER)
    made.serves()
    made.settles()
    assert made.claim("web") == "pp/all"
    made.shares(("m1",), ("m2",))
    made.settles()
    labels, annotations = made.marks()
    identity = made.policies[policy_key("mcs/web")]["metadata"]["labels"][const.MULTI_CLUSTER_SERVICE_ID_LABEL]
    assert labels == {
        const.TEMPLATE_CLAIMED_BY_LABEL: "MultiClusterService",
        const.MULTI_CLUSTER_SERVICE_ID_LABEL: identity,
    }
    assert annotations == {
        const.MULTI_CLUSTER_SERVICE_NAMESPACE: "default",
        const.MULTI_CLUSTER_SERVICE_NAME: "web",
    }
    assert (made.claim("web"), made.policy("web")) == ("mcs/web", "mcs/web")
    assert made.restarts() == []


@pytest.mark.parametrize(
    ("providers", "consumers", "wanted"),
    [
        (("m1",), ("m2",), ["m1", "m2"]),
        (("m1",), ("m1",), ["m1"]),
        (("m1",), (), ["m1", "m2", "m3"]),
        ((), ("m2",), ["m1", "m2", "m3"]),
        ((), (), ["m1", "m2", "m3"]),
        (("m1", "unknown"), ("m2",), ["m1", "m2", "unknown"]),
    ],
    ids=["both", "the same", "no consumers", "no providers", "neither", "one that is no member"],
)
def test_the_binding_names_all_of_both_sides(providers: Any, consumers: Any, wanted: list[str]) -> None:
    made = world("m1", "m2", "m3", providers=providers, consumers=consumers)
    assert made.placed() == wanted
    assert made.spec("web")["conflictResolution"] == "Overwrite"


def test_members_that_come_and_go_move_an_empty_side() -> None:
    made = world("m1", providers=(), consumers=())
    made.join("m2")
    assert made.settles() == ["BindingRequested"]
    assert made.placed() == ["m1", "m2"]
    made.leave("m1")
    made.settles()
    assert made.placed() == ["m2"]
    named = world("m1", "m2")
    named.join("m3")
    assert named.settles() == []


def test_fields_of_the_binding_before_are_kept() -> None:
    made = ServiceWorld("m1")
    made.applies("pp/all", OTHER, preserveResourcesOnDeletion=True, placement={"spreadConstraints": []})
    made.serves()
    made.settles()
    made.shares(("m1",), ("m2",))
    made.settles()
    assert made.spec("web")["preserveResourcesOnDeletion"] is True
    assert made.spec("web")["placement"] == {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}


def test_deletion_releases_the_service_and_keeps_the_binding() -> None:
    made = world("m1", "m2")
    spec = made.spec("web")
    assert made.policies[policy_key("mcs/web")]["metadata"]["finalizers"] == [const.MULTI_CLUSTER_SERVICE_FINALIZER]
    made.deletes("mcs/web")
    made.settles()
    assert policy_key("mcs/web") not in made.policies
    assert made.marks() == ({}, {})
    assert (made.policy("web"), made.spec("web")) == ("", spec)
    binding = made.binding("web")
    assert binding is not None
    assert binding.reason == "no MultiClusterService claims it any more"
    assert made.restarts() == []


def test_a_policy_gets_the_service_back() -> None:
    made = world("m1", "m2")
    made.applies("pp/all", OTHER)
    made.settles()
    assert made.claim("web") == "mcs/web"
    made.deletes("mcs/web")
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("pp/all", "pp/all")


def test_a_service_that_comes_later_is_claimed() -> None:
    made = ServiceWorld("m1")
    made.shares(("m1",), ("m2",))
    assert made.settles() == ["PolicyChanged", "PolicyChanged"]
    made.serves()
    made.settles()
    assert made.claim("web") == "mcs/web"
    made.removes("web")
    assert made.settles() == ["TemplateDeleted", "BindingReleased"]
    made.deletes("mcs/web")
    made.settles()
    assert policy_key("mcs/web") not in made.policies


def test_a_load_balancer_takes_no_service() -> None:
    made = ServiceWorld("m1")
    made.serves()
    made.shares(types=["LoadBalancer"])
    made.settles()
    assert made.marks() == ({}, {})
    assert "finalizers" not in made.policies[policy_key("mcs/web")]["metadata"]


def test_the_claim_of_another_controller_is_left_alone() -> None:
    made = ServiceWorld("m1")
    made.serves(labels={const.TEMPLATE_CLAIMED_BY_LABEL: "Another"})
    made.settles()
    assert made.marks()[0] == {const.TEMPLATE_CLAIMED_BY_LABEL: "Another"}
    assert made.binding("web") is None


def test_without_the_gate_what_was_made_ends() -> None:
    made = world("m1", "m2")
    made.options = msgspec.structs.replace(made.options, services=False)
    facts = made.restarts()
    assert "PolicyDeleted" in facts
    assert "FieldNotActedOn" in made.reasons()
    assert made.marks() == ({}, {})
    assert isinstance(made.state.binding_facts[KEY], BindingRequested)
    metadata = made.policies.get(policy_key("mcs/web"), {}).get("metadata", {})
    assert not metadata.get("finalizers")

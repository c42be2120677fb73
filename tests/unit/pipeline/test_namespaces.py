"""Namespaces go to every cluster, unless their users or the settings say otherwise (docs/policies.md)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._kit.base.settings import SettingsError
from services._rules import constants as const
from services.detector.settings import DetectorSettings
from tests.support.facts import binding as asked
from tests.support.facts import cluster, placement, template
from tests.support.harness import RendererHarness
from tests.support.policy_world import PolicyWorld

SKIP = {const.SKIP_AUTO_PROPAGATION_LABEL: "true"}
NAMESPACES = {"apiVersion": "v1", "kind": "Namespace"}


def binding_of(made: PolicyWorld, key: ObjectKey) -> BindingRequested | None:
    found = made.state.binding_facts.get(key)
    return found if isinstance(found, BindingRequested) else None


def synchronised(made: PolicyWorld, key: ObjectKey) -> bool:
    """Whether new clusters get the namespace."""
    found = binding_of(made, key)
    return found is not None and found.everywhere and not found.frozen


@pytest.mark.parametrize(
    ("name", "labels", "everywhere"),
    [
        ("shop", {}, True),
        ("my-kube-public", {}, True),
        ("default", {}, False),
        ("kube-public", {}, False),
        ("karmada-system", {}, False),
        ("karmada-cluster", {}, False),
        ("karmada-es-m1", {}, False),
        ("quiet", SKIP, False),
        ("quiet", {const.SKIP_AUTO_PROPAGATION_LABEL: "True"}, False),
        ("loud", {const.SKIP_AUTO_PROPAGATION_LABEL: "false"}, True),
    ],
)
def test_namespaces_that_go_everywhere(name: str, labels: dict[str, str], everywhere: bool) -> None:
    made = PolicyWorld()
    key = made.namespace(name, labels)
    made.settles()
    assert synchronised(made, key) == everywhere
    assert made.restarts() == []


def test_terminating_namespace_is_not_begun() -> None:
    made = PolicyWorld()
    key = made.namespace("shop", deletionTimestamp="2027-01-15T08:00:00Z")
    assert made.settles() == []
    assert binding_of(made, key) is None


def test_label_set_later_freezes_copies_and_its_removal_thaws() -> None:
    made = PolicyWorld()
    key = made.namespace("shop")
    made.settles()
    made.namespace("shop", SKIP)
    assert made.settles() == ["BindingRequested"]
    frozen = binding_of(made, key)
    assert frozen is not None
    assert (frozen.everywhere, frozen.frozen) == (True, 1)
    made.namespace("shop", {**SKIP, "team": "a"})
    assert made.settles() == []
    assert made.restarts() == []
    made.namespace("shop", {"team": "a"})
    made.settles()
    assert synchronised(made, key)


def test_deleted_namespace_ends_everywhere() -> None:
    made = PolicyWorld()
    key = made.namespace("shop")
    made.settles()
    made._set_template(key, None)
    assert made.settles() == ["TemplateDeleted", "BindingReleased"]


def test_opted_out_namespace_is_placed_by_a_policy() -> None:
    made = PolicyWorld()
    made.applies("cpp/a", {**NAMESPACES, "name": "shop"}, placement={"clusterAffinity": {"clusterNames": ["m1"]}})
    key = made.namespace("shop", SKIP)
    made.settles()
    found = binding_of(made, key)
    assert found is not None
    assert found.policy is not None
    assert (found.everywhere, found.policy.key.name, found.frozen) == (False, "a", 0)
    assert msgspec.json.decode(found.spec)["placement"]["clusterAffinity"] == {"clusterNames": ["m1"]}
    assert made.restarts() == []


def test_policy_that_takes_a_namespace_leaves_copies_elsewhere() -> None:
    made = PolicyWorld()
    key = made.namespace("shop")
    made.applies("cpp/a", {**NAMESPACES, "name": "shop"})
    made.settles()
    assert synchronised(made, key)
    made.namespace("shop", SKIP)
    made.settles()
    found = binding_of(made, key)
    assert found is not None
    assert found.policy is not None
    assert (found.everywhere, found.frozen) == (False, 1)


@pytest.mark.parametrize("name", ["kube-system", "karmada-es-m1", "karmada-system"])
def test_policy_never_takes_a_system_namespace(name: str) -> None:
    made = PolicyWorld()
    made.applies("cpp/a", NAMESPACES)
    key = made.namespace(name, SKIP)
    assert set(made.settles()) == {"PolicyChanged"}
    assert binding_of(made, key) is None


def test_setting_turns_synchronisation_off() -> None:
    made = PolicyWorld()
    key = made.namespace("shop")
    made.settles()
    made.options = DetectorSettings(control_kubeconfig="x", controllers=("*", "-namespace")).options()
    assert made.restarts() == ["BindingRequested"]
    assert not synchronised(made, key)
    other = made.namespace("other")
    made.settles()
    assert binding_of(made, other) is None


def test_unknown_controller_is_refused() -> None:
    with pytest.raises(SettingsError, match="-foo"):
        DetectorSettings(control_kubeconfig="x", controllers=("-foo",))


def rendered(*facts: Any) -> RendererHarness:
    return RendererHarness(cluster("m1"), cluster("m2"), template(), *facts)


def test_frozen_copies_stay_and_new_clusters_get_none() -> None:
    everywhere = replace(asked(), everywhere=True, policy=None)
    renderer = rendered(everywhere)
    assert sorted(renderer.works()) == ["m1", "m2"]
    renderer.given(replace(everywhere, generation=2, frozen=1), cluster("m3"))
    assert renderer.works() == {}
    renderer.given(cluster("m2", deleting=True))
    (gone,) = renderer.works().values()
    assert isinstance(gone, WorkWithdrawn)
    assert gone.cluster == "m2"


def test_placed_namespace_leaves_only_clusters_it_was_placed_in() -> None:
    everywhere = replace(asked(), everywhere=True, policy=None)
    renderer = rendered(everywhere)
    renderer.works()
    renderer.given(replace(asked(conflictResolution="Overwrite"), generation=2, frozen=1), placement(m1=2))
    (work,) = renderer.works().values()
    assert isinstance(work, WorkRendered)
    assert work.cluster == "m1"
    renderer.given(placement(m3=2), cluster("m3"))
    works = renderer.works()
    assert sorted(works) == ["m1", "m3"]
    assert isinstance(works["m1"], WorkWithdrawn)

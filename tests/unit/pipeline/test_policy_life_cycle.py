"""Who claims an object, how long, and what its binding asks for: one case for each rule (docs/policies.md)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from services._rules import constants as const
from tests.support.policy_world import PolicyWorld, selector

WEB = selector("web")
BOTH = {"placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}
ONE = {"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}


def world(*policies: tuple[Any, ...], labels: dict[str, str] | None = None, **options: Any) -> PolicyWorld:
    """A Deployment `web` (app=web) that meets these policies: name, selector, priority and more of the spec."""
    made = PolicyWorld(**options)
    for name, selects, spec in policies:
        made.applies(name, selects, **spec)
    made.creates("web", labels or {"app": "web"})
    made.settles()
    return made


@pytest.mark.parametrize(
    ("policies", "winner"),
    [
        ([("cpp/a", WEB, {"priority": 100}), ("pp/z", selector(), {})], "pp/z"),
        ([("pp/a", WEB, {"priority": -1}), ("pp/b", selector(), {})], "pp/b"),
        ([("cpp/a", selector(namespace="other"), {}), ("cpp/b", selector(), {})], "cpp/b"),
        ([("pp/a", {**WEB, "apiVersion": "apps/v1beta1"}, {})], ""),
    ],
    ids=[
        "scope before priority",
        "negative priority",
        "namespace of a selector",
        "another version",
    ],
)
def test_winner_of_an_unclaimed_template(policies: list[Any], winner: str) -> None:
    for order in (policies, policies[::-1]):
        made = world(*order)
        assert (made.claim("web"), made.policy("web")) == (winner, winner)
        assert made.restarts() == []


def test_policy_created_later_does_not_take_over() -> None:
    made = world(("cpp/a", WEB, {}))
    made.applies("pp/b", WEB, priority=9)
    assert set(made.settles()) == {"PolicyChanged"}
    assert made.claim("web") == "cpp/a"


def test_deleted_policy_leaves_the_binding_without_policy() -> None:
    made = world(("pp/a", WEB, BOTH))
    spec = made.spec("web")
    made.deletes("pp/a")
    assert made.settles() == ["PolicyChanged", "BindingRequested", "PolicyDeleted"]
    assert (made.claim("web"), made.policy("web"), made.spec("web")) == ("", "", spec)
    binding = made.binding("web")
    assert binding is not None
    assert binding.reason == "PropagationPolicy/default/a is being deleted; no other policy selects it"
    assert made.restarts() == []


def test_deleted_policy_hands_over_to_the_next_match() -> None:
    made = world(("pp/a", WEB, BOTH), ("cpp/b", selector(), ONE))
    made.deletes("pp/a")
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("cpp/b", "cpp/b")
    binding = made.binding("web")
    assert binding is not None
    assert binding.reason.endswith("ClusterPropagationPolicy/_/b selects it")
    labels = made.template("web")["metadata"]["labels"]
    assert const.PROPAGATION_POLICY_ID_LABEL not in labels


def test_recreated_policy_claims_with_another_id() -> None:
    made = world(("pp/a", WEB, BOTH))
    first = made.binding("web")
    made.deletes("pp/a")
    made.settles()
    made.applies("pp/a", WEB, **BOTH)
    made.settles()
    second = made.binding("web")
    assert first is not None
    assert second is not None
    assert first.policy is not None
    assert second.policy is not None
    assert first.policy.id != second.policy.id
    assert (second.uid, second.spec) == (first.uid, first.spec)


def test_relabelled_template_keeps_the_claim_until_an_edit() -> None:
    made = world(("pp/a", selector(app="web"), BOTH))
    made.applies("pp/a", priority=1)
    assert made.settles() == ["PolicyChanged"]
    made.labels("web", app="other")
    assert made.settles() == ["BindingRequested"]
    made.scales("web", 5)
    assert made.settles() == []
    assert made.spec("web")["replicas"] == 1
    assert made.restarts() == []
    made.applies("pp/a", priority=2)
    assert made.settles() == ["PolicyChanged", "BindingRequested"]
    assert (made.claim("web"), made.policy("web")) == ("", "")


def test_template_that_is_selected_again_is_refreshed() -> None:
    made = world(("pp/a", selector(app="web"), BOTH))
    made.labels("web", app="other")
    made.settles()
    made.scales("web", 5)
    made.labels("web", app="web")
    assert made.settles() == ["TemplateChanged", "BindingRequested"]
    binding = made.binding("web")
    assert binding is not None
    assert binding.policy is not None
    assert (binding.replicas, binding.policy.unselected, made.claim("web")) == (5, False, "pp/a")


def test_policy_that_stops_selecting_lets_go_at_once() -> None:
    made = world(("pp/a", WEB, BOTH), ("pp/b", selector(), ONE))
    made.applies("pp/a", selector("other"))
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("pp/b", "pp/b")
    binding = made.binding("web")
    assert binding is not None
    assert "was changed and selects it no longer" in binding.reason


def test_policy_edited_while_the_detector_is_away_lets_go() -> None:
    made = world(("pp/a", WEB, BOTH))
    made.applies("pp/a", selector("other"))
    assert sorted(made.restarts()) == ["BindingRequested", "PolicyChanged"]
    assert made.claim("web") == ""


def test_partial_claim_is_matched_again() -> None:
    made = world(("pp/b", WEB, BOTH))
    made.applies("pp/a", WEB, **ONE)
    made.settles()
    made.strips_labels("web")
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("pp/a", "pp/a")


def test_edit_without_effect_appends_no_binding() -> None:
    made = world(("pp/a", WEB, BOTH))
    made.applies("pp/a", priority=3, preemption="Never")
    assert made.settles() == ["PolicyChanged"]
    made.applies("pp/a", **ONE)
    assert made.settles() == ["PolicyChanged", "BindingRequested"]


def test_template_recreated_with_another_uid() -> None:
    made = world(("pp/a", WEB, BOTH))
    made.removes("web")
    made.creates("web", {"app": "web"})
    made.settles()
    kinds = [type(event).__name__ for event in made.log[-4:]]
    assert kinds == ["TemplateDeleted", "BindingReleased", "TemplateChanged", "BindingRequested"]
    assert (made.claim("web"), made.policy("web")) == ("pp/a", "pp/a")


def test_template_that_was_unmatched_is_claimed_by_any_change() -> None:
    made = world(("pp/a", selector(app="other"), BOTH))
    assert made.claim("web") == ""
    made.applies("pp/a", selector(app="web"))
    made.settles()
    assert made.claim("web") == "pp/a"


def test_relabelled_template_meets_a_policy() -> None:
    made = world(("pp/a", selector(app="other"), BOTH))
    made.labels("web", app="other")
    made.settles()
    assert made.claim("web") == "pp/a"


def test_claim_that_ended_while_the_policy_is_lazy() -> None:
    made = PolicyWorld()
    made.creates("web", {"app": "web"})
    made.settles()
    made.applies("pp/a", WEB, activationPreference="Lazy")
    made.settles()
    assert (made.claim("web"), made.binding("web")) == ("pp/a", None)
    made.deletes("pp/a")
    made.settles()
    assert made.claim("web") == ""
    assert "pp/a" not in [key.name for key in made.policies]


@pytest.mark.parametrize(("policy", "override"), [("pp/a", "op/o"), ("cpp/a", "cop/o")])
def test_template_waits_for_dependent_overrides(policy: str, override: str) -> None:
    made = world((policy, WEB, {"dependentOverrides": ["o"], **BOTH}))
    assert (made.claim("web"), made.binding("web")) == ("", None)
    assert set(made.reasons()) == {"ApplyPolicyFailed"}
    made.applies(override)
    assert made.settles() == ["PolicyChanged", "TemplateChanged", "BindingRequested"]
    assert made.claim("web") == policy


def test_missing_override_blocks_a_propagated_template() -> None:
    made = world(("pp/a", WEB, BOTH))
    made.applies("op/o")
    made.applies("pp/a", dependentOverrides=["o"])
    made.settles()
    made.deletes("op/o")
    assert made.settles() == ["PolicyDeleted"]
    made.scales("web", 4)
    assert made.settles() == []
    assert (made.claim("web"), made.policy("web"), made.spec("web")["replicas"]) == ("pp/a", "pp/a", 1)
    assert made.reasons() == ["ApplyPolicyFailed"]
    assert made.restarts() == []
    made.applies("op/o")
    assert made.settles() == ["PolicyChanged", "TemplateChanged", "BindingRequested"]
    assert made.spec("web")["replicas"] == 4


def test_another_policy_ends_the_wait_for_overrides() -> None:
    made = world(("pp/a", WEB, {"dependentOverrides": ["o"]}))
    made.applies("pp/b", WEB, priority=1)
    made.settles()
    assert made.claim("web") == "pp/b"


def test_template_claimed_by_another_controller_is_left_alone() -> None:
    made = world(("pp/a", WEB, BOTH), labels={"app": "web", const.TEMPLATE_CLAIMED_BY_LABEL: "fhpa"})
    assert (made.claim("web"), made.binding("web")) == ("", None)


def test_suspension_of_a_policy_comes_and_goes() -> None:
    made = world(("pp/a", WEB, {"suspension": {"dispatching": True}}))
    assert made.spec("web")["suspension"] == {"dispatching": True}
    made.applies("pp/a", suspension=None)
    made.settles()
    assert "suspension" not in made.spec("web")


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_claims_move_from_cluster_policy_to_namespaced_one(at_once: bool) -> None:
    made = world(("cpp/a", WEB, BOTH))
    made.applies("pp/b", WEB, **ONE)
    if not at_once:
        made.settles()
    made.deletes("cpp/a")
    made.settles()
    labels = made.template("web")["metadata"]["labels"]
    assert (made.claim("web"), made.policy("web")) == ("pp/b", "pp/b")
    assert const.CLUSTER_PROPAGATION_POLICY_ID_LABEL not in labels


def lazy(made: PolicyWorld, **spec: Any) -> None:
    made.applies("pp/a", WEB, activationPreference="Lazy", **spec)
    made.settles()


def test_lazy_policy_before_its_template_binds_it() -> None:
    made = world(("pp/a", WEB, {"activationPreference": "Lazy", **BOTH}))
    assert made.policy("web") == "pp/a"


def test_lazy_policy_after_its_template_only_claims_it() -> None:
    made = world()
    lazy(made, **BOTH)
    assert (made.claim("web"), made.binding("web")) == ("pp/a", None)
    assert made.restarts() == []
    made.annotates("web", **{"policy.karmada.io_note": "x"})
    made.settles()
    assert made.binding("web") is None
    made.scales("web", 2)
    made.settles()
    assert made.spec("web")["replicas"] == 2


def test_lazy_policy_seen_after_a_later_template_binds_it() -> None:
    made = PolicyWorld()
    made.goes_on_after(100)
    made.creates("web", {"app": "web"})
    made.settles()
    made.goes_on_after(10)
    lazy(made, **BOTH)
    assert made.policy("web") == "pp/a"
    made.applies("pp/a", **ONE)
    made.settles()
    assert made.spec("web")["placement"] == BOTH["placement"]


def test_edit_of_a_lazy_policy_waits_for_an_edit_of_the_template() -> None:
    made = world(("pp/a", WEB, {"activationPreference": "Lazy", **BOTH}))
    made.applies("pp/a", **ONE)
    assert made.settles() == ["PolicyChanged"]
    assert made.restarts() == []
    made.labels("web", **{"x.karmada.io_y": "controllers"})
    assert "BindingRequested" not in made.settles()
    made.labels("web", team="users")
    made.settles()
    assert made.spec("web")["placement"] == ONE["placement"]


def test_policy_that_is_lazy_no_longer_takes_effect() -> None:
    made = world(("pp/a", WEB, {"activationPreference": "Lazy", **BOTH}))
    made.applies("pp/a", activationPreference=None, **ONE)
    made.settles()
    assert made.spec("web")["placement"] == ONE["placement"]


def test_lazy_preemption_moves_the_claim_and_not_the_content() -> None:
    made = world(("cpp/b", WEB, BOTH))
    lazy(made, preemption="Always", **ONE)
    assert (made.claim("web"), made.policy("web"), made.spec("web")["placement"]) == (
        "pp/a",
        "cpp/b",
        BOTH["placement"],
    )
    assert made.restarts() == []
    made.scales("web", 2)
    made.settles()
    assert (made.policy("web"), made.spec("web")["placement"]) == ("pp/a", ONE["placement"])


def test_lazy_policy_after_the_end_of_another_claim_is_applied() -> None:
    made = world(("pp/b", WEB, BOTH))
    lazy(made, **ONE)
    made.deletes("pp/b")
    made.settles()
    assert (made.claim("web"), made.policy("web"), made.spec("web")["placement"]) == ("pp/a", "pp/a", ONE["placement"])


def test_deletion_and_restart_append_nothing_twice() -> None:
    made = world(("pp/a", WEB, BOTH))
    made.removes("web")
    made.deletes("pp/a")
    made.settles()
    assert made.restarts() == []
    assert not [fact for fact in made.state.binding_facts.values() if isinstance(fact, BindingRequested)]


@pytest.mark.parametrize(
    ("namespace", "taken"),
    [("default", True), ("kube-system", False), ("karmada-es-m1", False), ("karmada-cluster", False)],
)
def test_system_namespaces_are_left_alone(namespace: str, taken: bool) -> None:
    made = PolicyWorld()
    made.applies("cpp/a", selector())
    key = replace(made.key("web"), namespace=namespace)
    manifest = {**WEB, "metadata": {"name": "web", "namespace": namespace, "uid": "u", "generation": 1}}
    made._set_template(key, {part: value for part, value in manifest.items() if part != "name"})
    made.settles()
    assert isinstance(made.state.binding_facts.get(key), BindingRequested) == taken


def test_namespaced_policy_takes_nothing_of_other_namespaces() -> None:
    made = PolicyWorld()
    made.applies("pp/a", selector())
    key = replace(made.key("web"), namespace="other")
    made._set_template(key, {**selector(), "metadata": {"name": "web", "namespace": "other", "uid": "u"}})
    assert "BindingRequested" not in made.settles()


def test_cluster_scoped_object_takes_cluster_policies() -> None:
    made = PolicyWorld(namespaces=False)
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    made.applies("pp/a", kind)
    made.applies("cpp/b", {**kind, "namespace": "default"})
    key = made.namespace("shop")
    made.settles()
    assert key not in made.state.binding_facts
    made.applies("cpp/c", kind)
    made.settles()
    binding = made.state.binding_facts[key]
    assert isinstance(binding, BindingRequested)
    assert binding.policy is not None
    assert binding.policy.key.name == "c"

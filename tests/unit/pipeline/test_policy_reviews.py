"""A policy that has less effect than it seems to says so, once, and on itself (docs/policies.md)."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.kubernetes.event_objects import Note
from services.detector.claims.policy_review import QUIET, WINDOW, review_policy
from services.detector.effects import Tell
from tests.support.policy_world import NOW, PolicyWorld, policy_key, selector

SERVED = frozenset({("apps/v1", "Deployment"), ("v1", "Namespace"), ("autoscaling/v2", "HorizontalPodAutoscaler")})


def reviewed(made: PolicyWorld, name: str, now: float = NOW + QUIET) -> Note | None:
    """The Event of a policy at a time."""
    made.settles()
    effects = review_policy(made.state, policy_key(name), now).effects
    (note,) = [effect.note for effect in effects if isinstance(effect, Tell)] or [None]
    return note


def world(name: str, *selectors: dict[str, Any], **spec: Any) -> PolicyWorld:
    made = PolicyWorld()
    made.state.served = SERVED
    made.creates("web", {"app": "web"})
    made.applies(name, *selectors, **spec)
    return made


@pytest.mark.parametrize(
    ("policy", "selects", "says"),
    [
        (
            "pp/a",
            {"apiVersion": "v1", "kind": "Deployment"},
            "does not serve Deployment in v1; it serves Deployment in apps/v1",
        ),
        (
            "cpp/a",
            {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"},
            "it serves HorizontalPodAutoscaler in autoscaling/v2",
        ),
        (
            "cpp/a",
            {"apiVersion": "x.io/v1", "kind": "Gear"},
            "does not serve Gear in x.io/v1; is its definition installed?",
        ),
        (
            "cpp/a",
            {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy"},
            "is never propagated",
        ),
        ("cpp/a", selector("coredns", "kube-system"), "objects in namespace kube-system are never propagated"),
        ("pp/a", selector("other"), "no object of the control plane matches"),
        ("pp/a", {**selector(), "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "no object"),
    ],
)
def test_selector_without_effect_is_named(policy: str, selects: dict[str, Any], says: str) -> None:
    note = reviewed(world(policy, selects), policy)
    assert note is not None
    assert says in note.message
    assert (note.warning, note.key.name, note.reason) == (True, "a", "SelectorsWithoutEffect")


def test_position_of_the_selector_is_named() -> None:
    note = reviewed(world("pp/a", selector(), {"apiVersion": "v1", "kind": "Deployment"}), "pp/a")
    assert note is not None
    assert note.message.startswith("spec.resourceSelectors[1]: ")


def test_policy_with_effect_says_nothing() -> None:
    assert reviewed(world("pp/a", selector("web"), selector("later")), "pp/a") is None


def test_missing_override_is_named_on_the_policy() -> None:
    note = reviewed(world("pp/a", selector("web"), dependentOverrides=["o"]), "pp/a")
    assert note is not None
    assert "dependentOverrides: o not found" in note.message


@pytest.mark.parametrize(("more", "warning"), [([], True), (["api"], False)], ids=["all", "some"])
def test_policies_that_contradict_name_each_other(more: list[str], warning: bool) -> None:
    made = world("pp/a", selector("web"))
    made.settles()
    for name in more:
        made.creates(name)
    made.applies("pp/b", selector())
    note = reviewed(made, "pp/b")
    assert note is not None
    assert "deployments.apps web by PropagationPolicy/default/a" in note.message
    assert note.warning == warning
    assert reviewed(made, "pp/a") is None


def test_nothing_is_said_before_it_is_quiet_or_long_after() -> None:
    made = world("pp/a", selector("other"))
    made.settles()
    early = review_policy(made.state, policy_key("pp/a"), NOW + 1)
    assert (early.effects, early.wake_at) == ((), NOW + QUIET)
    late = review_policy(made.state, policy_key("pp/a"), NOW + QUIET + WINDOW + 1)
    assert (late.effects, late.wake_at) == ((), None)


def test_kinds_are_not_judged_before_discovery() -> None:
    made = world("pp/a", selector("web"), {"apiVersion": "x.io/v1", "kind": "Gear"})
    made.state.served = frozenset()
    assert reviewed(made, "pp/a") is None


def test_message_of_many_conflicts_is_short() -> None:
    made = PolicyWorld()
    made.applies("pp/a", selector())
    for number in range(50):
        made.creates(f"web-{number:02}")
    made.settles()
    made.applies("cpp/b", selector())
    note = reviewed(made, "cpp/b")
    assert note is not None
    assert "50 of the objects" in note.message
    assert "and 47 more" in note.message


def test_policy_of_synchronised_namespaces_is_named() -> None:
    made = world("cpp/a", {"apiVersion": "v1", "kind": "Namespace"})
    made.namespace("loud")
    made.namespace("quiet", {"namespace.karmada.io/skip-auto-propagation": "true"})
    note = reviewed(made, "cpp/a")
    assert note is not None
    assert "every cluster by themselves (loud)" in note.message

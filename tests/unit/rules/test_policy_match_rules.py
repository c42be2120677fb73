"""Matching of policies: order of candidates, preemption, and what is skipped."""

from typing import Any

import pytest

from services._rules.policies import matching as policy_match
from services._rules.policies import skip_rules
from services._rules.policies.matching import Rank, Template

NGINX = Template("apps/v1", "Deployment", "default", "nginx", {"app": "web"})
DEPLOYMENTS = {"apiVersion": "apps/v1", "kind": "Deployment"}
BY_NAME = DEPLOYMENTS | {"name": "nginx"}
BY_LABEL = DEPLOYMENTS | {"labelSelector": {"matchLabels": {"app": "web"}}}


def policy(name: str, selector: dict[str, Any], namespace: str = "default", **spec: Any) -> policy_match.Policy:
    return policy_match.compile_policy(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec | {"resourceSelectors": [selector]}}
    )


def test_priority_comes_before_exactness() -> None:
    candidates = [policy("foo", BY_NAME, priority=1), policy("bar", BY_LABEL, priority=2)]
    winner = policy_match.best_policy(candidates, NGINX)
    assert winner is not None
    assert winner.name == "bar"


def test_the_smaller_name_settles_a_tie_in_any_order() -> None:
    candidates = [policy("b", BY_NAME), policy("a", BY_NAME), policy("c", BY_NAME)]
    for order in (candidates, candidates[::-1]):
        winner = policy_match.best_policy(order, NGINX)
        assert winner is not None
        assert winner.name == "a"


def test_a_policy_of_another_namespace_does_not_match() -> None:
    assert policy_match.match_policy(NGINX, [policy("a", BY_NAME, namespace="other")], []) is None


def test_a_broken_label_selector_matches_nothing() -> None:
    broken = DEPLOYMENTS | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}}
    assert policy_match.compile_selector(broken).rank(NGINX) is Rank.NO_MATCH


@pytest.mark.parametrize(
    ("preemptor", "holder", "expected"),
    [
        (policy("a", BY_NAME, preemption="Always", priority=2), policy("b", BY_NAME, priority=1), True),
        (policy("a", BY_NAME, preemption="Always", priority=1), policy("b", BY_NAME, priority=1), False),
        (policy("a", BY_NAME, preemption="Always"), policy("b", BY_NAME, namespace="", priority=9), True),
        (policy("a", BY_NAME, namespace="", preemption="Always", priority=9), policy("b", BY_NAME), False),
        (policy("a", BY_NAME, preemption="Never", priority=9), policy("b", BY_NAME), False),
    ],
)
def test_preemption_needs_scope_or_priority(
    preemptor: policy_match.Policy, holder: policy_match.Policy, expected: bool
) -> None:
    assert policy_match.may_preempt(preemptor, holder) is expected


@pytest.mark.parametrize(
    ("api_version", "kind", "skipped"),
    [
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", True),
        ("search.karmada.io/v1alpha1", "ResourceRegistry", False),
        ("coordination.k8s.io/v1", "Lease", True),
        ("v1", "Event", True),
        ("v1", "ConfigMap", False),
        ("v1", "Pod", True),
        ("networking.k8s.io/v1", "Ingress", True),
        ("networking.k8s.io/v1", "NetworkPolicy", False),
        ("batch/v1", "Job", True),
        ("example.io/v1", "Thing", True),
    ],
)
def test_skipped_kinds_by_constant_and_by_setting(api_version: str, kind: str, skipped: bool) -> None:
    rules = skip_rules.compile_skip_rules("v1/Pod,Secret; networking.k8s.io/v1/Ingress;batch/v1;example.io")
    assert rules.skips_kind(api_version, kind) is skipped


@pytest.mark.parametrize(
    ("namespace", "skipped"),
    [("kube-public", True), ("karmada-es-m1", True), ("my-kube-public", False), ("default", False), ("", False)],
)
def test_skipped_namespaces(namespace: str, skipped: bool) -> None:
    rules = skip_rules.compile_skip_rules()
    assert rules.skips_object(Template("v1", "ConfigMap", namespace, "a", {})) is skipped


@pytest.mark.parametrize("setting", ["a/b/c/d", "v1/Pod;a/b/c/d/e"])
def test_a_skip_setting_with_too_many_parts_is_refused(setting: str) -> None:
    with pytest.raises(skip_rules.SkipRuleError, match="a/b/c/d"):
        skip_rules.compile_skip_rules(setting)


def test_a_broken_namespace_expression_is_refused() -> None:
    with pytest.raises(skip_rules.SkipRuleError, match=r"\(\["):
        skip_rules.compile_skip_rules("", ["(["])

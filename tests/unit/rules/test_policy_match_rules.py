"""Matching of policies: order of candidates, preemption, and what is skipped."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services._rules.policies import matching as policy_match
from services._rules.policies import preemption, skip_rules
from services._rules.policies.matching import Rank, Template
from services._rules.policies.policy_index import PolicyIndex

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
    assert preemption.may_preempt(preemptor, holder) is expected


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


_LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), max_size=2)
_EXPRESSIONS = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, **({"values": values} if "I" in operator else {})},
    st.sampled_from(["a", "b"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Is"]),
    st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=2),
)
_SELECTORS = st.fixed_dictionaries(
    {"apiVersion": st.just("apps/v1"), "kind": st.sampled_from(["Deployment", "StatefulSet"])},
    optional={
        "namespace": st.sampled_from(["default", "other", ""]),
        "name": st.sampled_from(["nginx", "web", ""]),
        "labelSelector": st.fixed_dictionaries(
            {}, optional={"matchLabels": _LABELS, "matchExpressions": st.lists(_EXPRESSIONS, max_size=2)}
        ),
    },
)
_TEMPLATES = st.builds(
    Template,
    st.just("apps/v1"),
    st.sampled_from(["Deployment", "StatefulSet"]),
    st.sampled_from(["default", "other", ""]),
    st.sampled_from(["nginx", "web"]),
    _LABELS,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_SELECTORS, max_size=5), _TEMPLATES)
def test_selectors_together_rank_as_each_does(selectors: list[dict[str, Any]], template: Template) -> None:
    each = policy_match.best_rank(map(policy_match.compile_selector, selectors), template)
    assert policy_match.compile_selectors(selectors).rank(template) is each


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "default"]), st.lists(_SELECTORS, max_size=3))),
    _TEMPLATES,
)
def test_index_finds_every_policy_that_matches(changes: list[Any], template: Template) -> None:
    index: PolicyIndex[int] = PolicyIndex()
    standing: dict[int, tuple[str, policy_match.SelectorSet]] = {}
    for key, namespace, selectors in changes:
        if selectors:
            standing[key] = (namespace, policy_match.compile_selectors(selectors))
            index.put(key, *standing[key])
        else:
            standing.pop(key, None)
            index.drop(key)
    for namespace in ("", "default"):
        matching = {key for key, (place, found) in standing.items() if place == namespace and found.rank(template)}
        assert matching <= set(index.candidates(template, namespace)) <= standing.keys()


@pytest.mark.parametrize(
    ("kind", "name", "labels", "skipped"),
    [
        ("ConfigMap", "kube-root-ca.crt", {}, True),
        ("ServiceAccount", "default", {skip_rules.STANDING_LABEL: "true"}, True),
        ("ServiceAccount", "default", {}, False),
        ("ServiceAccount", "other", {skip_rules.STANDING_LABEL: "true"}, False),
        ("Secret", "kube-root-ca.crt", {}, False),
    ],
)
def test_what_each_cluster_has_itself_is_skipped(kind: str, name: str, labels: dict[str, str], skipped: bool) -> None:
    rules = skip_rules.compile_skip_rules()
    assert rules.skips_object(Template("v1", kind, "team", name, labels)) is skipped

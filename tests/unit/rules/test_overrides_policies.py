"""Override policies on objects: order, matching, each overrider, failures, and inputs that stay as they were."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from services._rules import overrides
from services._rules.overrides import OverrideError
from services._rules.policies.cluster_affinity import facts_of
from tests.support.case_files import Case, assert_within, cases_of

M1 = facts_of({"metadata": {"name": "m1", "labels": {"env": "prod"}}, "spec": {"provider": "p", "region": "r"}})
M2 = facts_of({"metadata": {"name": "m2"}, "spec": {}})

CASES = Path(__file__).with_name("override_cases.yaml")
OBJECTS = yaml.load(CASES.read_text(), Loader=yaml.CSafeLoader)["objects"]
DEPLOYMENT, CONFIG = OBJECTS["deployment"], OBJECTS["config"]


def policy(name: str, *rules: dict[str, Any], namespace: str = "default", **spec: Any) -> overrides.OverridePolicy:
    return overrides.compile_policy(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec | {"overrideRules": list(rules)}}
    )


def overridden(manifest: dict[str, Any], **overriders: Any) -> Any:
    return overrides.apply(manifest, M1, [], [policy("p", {"overriders": overriders})]).manifest


def label(value: str, **rule: Any) -> dict[str, Any]:
    return {"overriders": {"labelsOverrider": [{"operator": "add", "value": {"t": value}}]}} | rule


def selecting(**selector: Any) -> dict[str, Any]:
    return {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"} | selector]}


BY_NAME = selecting(name="web")
BY_LABEL = selecting(labelSelector={"matchLabels": {"app": "web"}})


@pytest.mark.parametrize(
    ("cluster_wide", "namespaced", "expected"),
    [
        ([policy("z", label("cop"), namespace="", **BY_NAME)], [policy("a", label("op"))], "op"),
        ([], [policy("a", label("1"), **BY_NAME), policy("b", label("2"), **BY_LABEL), policy("c", label("3"))], "1"),
        ([], [policy("b", label("b"), **BY_NAME), policy("a", label("a"), **BY_NAME)], "b"),
        ([], [policy("a", label("here"), namespace="other")], None),
        ([], [policy("a", label("1"), label("2", targetCluster={"clusterNames": ["m1"]}))], "2"),
        ([], [policy("a", label("1"), label("2", targetCluster={"clusterNames": ["m2"]}))], "1"),
        ([], [policy("a", label("1"), label("2", targetCluster={"clusterNames": 7}))], "1"),
    ],
)
def test_more_exact_and_later_policies_win(cluster_wide: Any, namespaced: Any, expected: str | None) -> None:
    found = overrides.apply(DEPLOYMENT, M1, cluster_wide, namespaced).manifest
    assert found["metadata"]["labels"].get("t") == expected


def test_namespaced_policies_match_after_cluster_wide_ones() -> None:
    relabel = {"overriders": {"labelsOverrider": [{"operator": "replace", "value": {"app": "other"}}]}}
    found = overrides.apply(DEPLOYMENT, M1, [policy("c", relabel, namespace="")], [policy("n", label("1"), **BY_LABEL)])
    assert found.manifest["metadata"]["labels"] == {"app": "other"}
    assert found.applied_overrides == ()


def test_policies_of_one_scope_match_independently() -> None:
    relabel = {"overriders": {"labelsOverrider": [{"operator": "replace", "value": {"app": "other"}}]}}
    found = overrides.apply(DEPLOYMENT, M1, [], [policy("a", relabel), policy("b", label("1"), **BY_LABEL)])
    assert found.manifest["metadata"]["labels"] == {"app": "other", "t": "1"}


def test_cluster_scoped_object_gets_cluster_wide_overrides() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    found = overrides.apply(role, M1, [policy("c", label("cop"), namespace="")], [policy("n", label("op"))])
    assert found.manifest["metadata"]["labels"] == {"t": "cop"}


def test_deprecated_rule_counts_only_alone() -> None:
    legacy = {"targetCluster": {"clusterNames": ["m1"]}, **label("old")}
    alone = overrides.compile_policy({"metadata": {"name": "a", "namespace": "default"}, "spec": legacy})
    beside = policy("a", label("new"), **legacy)
    assert overrides.apply(DEPLOYMENT, M1, [], [alone]).manifest["metadata"]["labels"]["t"] == "old"
    assert overrides.apply(DEPLOYMENT, M2, [], [alone]).manifest is DEPLOYMENT
    assert overrides.apply(DEPLOYMENT, M1, [], [beside]).manifest["metadata"]["labels"]["t"] == "new"


def test_inputs_stay_and_untouched_parts_are_shared() -> None:
    before = copy.deepcopy(DEPLOYMENT)
    found = overridden(
        DEPLOYMENT,
        imageOverrider=[{"component": "Tag", "operator": "replace", "value": "v2"}],
        argsOverrider=[{"containerName": "a", "operator": "add", "value": ["--c=m1"]}],
        labelsOverrider=[{"operator": "add", "value": {"t": "1"}}],
        plaintext=[{"path": "/spec/replicas", "operator": "replace", "value": 5}],
    )
    assert before == DEPLOYMENT
    assert found["spec"]["replicas"] == 5
    spec = found["spec"]["template"]["spec"]
    assert [item["image"] for item in spec["containers"]] == ["nginx:v2", "side:v2"]
    assert spec["initContainers"] is DEPLOYMENT["spec"]["template"]["spec"]["initContainers"]


@pytest.mark.parametrize("case", cases_of(CASES, "applied"))
def test_overriders_change_an_object(case: Case) -> None:
    assert_within(case["then"], overridden(OBJECTS[case["object"]], **case["overriders"]))


@pytest.mark.parametrize("case", cases_of(CASES, "refused"))
def test_error_names_policy_rule_and_place(case: Case) -> None:
    failing = policy("bad", label("1"), {"overriders": case["overriders"]})
    with pytest.raises(OverrideError) as caught:
        overrides.apply(CONFIG, M1, [], [failing])
    found = caught.value
    assert (found.policy, found.rule, found.where) == ("OverridePolicy default/bad", 1, case["where"])


def test_error_is_short_enough_for_an_event() -> None:
    long = DEPLOYMENT | {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "A" * 100_000}]}}}}
    change = {"imageOverrider": [{"component": "Tag", "operator": "remove"}]}
    with pytest.raises(OverrideError, match="AAAA'… is no image reference: its name has upper-case letters") as caught:
        overrides.apply(long, M1, [], [policy("bad", {"overriders": change})])
    assert len(str(caught.value)) < 1_500


def test_object_of_wrong_shape_is_an_error() -> None:
    broken = DEPLOYMENT | {"spec": {"template": {"spec": {"containers": "none"}}}}
    with pytest.raises(OverrideError, match="containers"):
        overridden(broken, argsOverrider=[{"containerName": "a", "operator": "add", "value": ["x"]}])
    with pytest.raises(OverrideError, match="no valid Deployment"):
        overridden(broken, imageOverrider=[{"component": "Tag", "operator": "remove"}])


def test_applied_rules_are_recorded_in_order() -> None:
    found = overrides.apply(DEPLOYMENT, M1, [], [policy("a", label("1"), **BY_NAME), policy("z", label("2"))])
    assert [item.policy_name for item in found.applied_overrides] == ["z", "a"]

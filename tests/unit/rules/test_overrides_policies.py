"""Override policies on objects: order, matching, each overrider, failures, and inputs that stay as they were."""

import copy
from typing import Any

import pytest

from services._rules import overrides
from services._rules.overrides import OverrideError
from services._rules.policies.cluster_affinity import facts_of

M1 = facts_of({"metadata": {"name": "m1", "labels": {"env": "prod"}}, "spec": {"provider": "p", "region": "r"}})
M2 = facts_of({"metadata": {"name": "m2"}, "spec": {}})

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [
                    {"name": "a", "image": "nginx:1", "command": ["./a", "--x=1", "--y=2"]},
                    {"name": "b", "image": "side:1"},
                ],
                "initContainers": [{"name": "i", "image": "init:1"}],
            }
        },
    },
}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "default"},
    "data": {"k": "v", "db.yaml": "port: 1\nhost: h\n", "c.json": '{"b":1,"a":{"x":1}}'},
}


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


def test_a_cluster_wide_override_decides_which_namespaced_ones_match() -> None:
    relabel = {"overriders": {"labelsOverrider": [{"operator": "replace", "value": {"app": "other"}}]}}
    found = overrides.apply(DEPLOYMENT, M1, [policy("c", relabel, namespace="")], [policy("n", label("1"), **BY_LABEL)])
    assert found.manifest["metadata"]["labels"] == {"app": "other"}
    assert found.applied_overrides == ()


def test_policies_of_one_group_do_not_influence_each_others_matching() -> None:
    relabel = {"overriders": {"labelsOverrider": [{"operator": "replace", "value": {"app": "other"}}]}}
    found = overrides.apply(DEPLOYMENT, M1, [], [policy("a", relabel), policy("b", label("1"), **BY_LABEL)])
    assert found.manifest["metadata"]["labels"] == {"app": "other", "t": "1"}


def test_a_cluster_scoped_object_gets_cluster_wide_overrides_only() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    found = overrides.apply(role, M1, [policy("c", label("cop"), namespace="")], [policy("n", label("op"))])
    assert found.manifest["metadata"]["labels"] == {"t": "cop"}


def test_the_deprecated_single_rule_counts_only_alone() -> None:
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


def test_a_predicate_changes_that_image_only() -> None:
    path = "/spec/template/spec/initContainers/0/image"
    found = overridden(
        DEPLOYMENT,
        imageOverrider=[{"predicate": {"path": path}, "component": "Tag", "operator": "replace", "value": "v2"}],
    )
    spec = found["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["image"] == "init:v2"
    assert spec["containers"] is DEPLOYMENT["spec"]["template"]["spec"]["containers"]


def test_images_of_kinds_without_known_containers_need_a_predicate() -> None:
    custom = {"apiVersion": "x.io/v1", "kind": "App", "metadata": {"name": "a", "namespace": "default"}, "image": "a:1"}
    change = {"component": "Registry", "operator": "replace", "value": "r.io"}
    assert overridden(custom, imageOverrider=[change]) is custom
    assert overridden(custom, imageOverrider=[change | {"predicate": {"path": "/image"}}])["image"] == "r.io/a:1"


@pytest.mark.parametrize(
    ("container", "field", "operator", "value", "expected"),
    [
        ("a", "command", "remove", ["--x=1"], ["./a", "--y=2"]),
        ("a", "command", "add", ["--z"], ["./a", "--x=1", "--y=2", "--z"]),
        ("a", "args", "add", ["--c=m1"], ["--c=m1"]),
        ("a", "args", "remove", ["--c"], []),
        ("none", "args", "add", ["--c"], None),
    ],
)
def test_commands_and_arguments(container: str, field: str, operator: str, value: Any, expected: Any) -> None:
    item = {"containerName": container, "operator": operator, "value": value}
    found = overridden(DEPLOYMENT, **{f"{field}Overrider": [item]})
    assert found["spec"]["template"]["spec"]["containers"][0].get(field) == expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("add", {"app": "2", "b": "3"}, {"app": "2", "b": "3"}),
        ("replace", {"app": "2", "b": "3"}, {"app": "2"}),
        ("remove", {"app": "anything", "z": "1"}, {}),
    ],
)
def test_labels(operator: str, value: dict[str, str], expected: dict[str, str]) -> None:
    found = overridden(DEPLOYMENT, labelsOverrider=[{"operator": operator, "value": value}])
    assert found["metadata"]["labels"] == expected


def test_annotations_are_created() -> None:
    found = overridden(DEPLOYMENT, annotationsOverrider=[{"operator": "add", "value": {"x.io/k": "v"}}])
    assert found["metadata"]["annotations"] == {"x.io/k": "v"}


def test_texts_in_fields() -> None:
    found = overridden(
        CONFIG,
        fieldOverrider=[
            {"fieldPath": "/data/db.yaml", "yaml": [{"subPath": "/port", "operator": "replace", "value": 2}]},
            {"fieldPath": "/data/c.json", "json": [{"subPath": "/a/y", "operator": "add", "value": 2}]},
        ],
    )
    assert found["data"] == {"k": "v", "db.yaml": "host: h\nport: 2\n", "c.json": '{"b":1,"a":{"x":1,"y":2}}'}


@pytest.mark.parametrize("operator", ["add", "replace"])
def test_the_empty_path_is_the_whole_document(operator: str) -> None:
    whole = {"subPath": "", "operator": operator, "value": {"new": [1]}}
    found = overridden(
        CONFIG,
        fieldOverrider=[
            {"fieldPath": "/data/db.yaml", "yaml": [whole]},
            {"fieldPath": "/data/c.json", "json": [whole, {"subPath": "/new/-", "operator": "add", "value": 2}]},
        ],
    )
    assert found["data"] == {"k": "v", "db.yaml": "new:\n- 1\n", "c.json": '{"new":[1,2]}'}
    assert overridden(CONFIG, plaintext=[{"path": "", "operator": operator, "value": CONFIG | {"l": 1}}])["l"] == 1


def test_operations_on_lists() -> None:
    listed = CONFIG | {"l": [1, 2]}
    found = overridden(
        listed,
        plaintext=[
            {"path": "/l/1", "operator": "add", "value": 9},
            {"path": "/l/-", "operator": "add", "value": 7},
        ],
    )
    assert found["l"] == [1, 9, 2, 7]


@pytest.mark.parametrize(
    ("overriders", "where"),
    [
        ({"plaintext": [{"path": "/data/z", "operator": "replace", "value": "w"}]}, "plaintext replace at /data/z"),
        ({"plaintext": [{"path": "/none/z", "operator": "add", "value": "w"}]}, "plaintext add at /none/z"),
        ({"plaintext": [{"path": "/kind", "operator": "remove"}]}, "plaintext"),
        ({"plaintext": [{"path": "", "operator": "replace", "value": [1]}]}, "plaintext"),
        ({"plaintext": [{"path": "", "operator": "remove"}]}, "plaintext remove at "),
        (
            {"fieldOverrider": [{"fieldPath": "/data/c.json", "json": [{"operator": "add", "value": 1}]}]},
            "fieldOverrider at /data/c.json, add at ",
        ),
        ({"plaintext": [{"path": "/metadata", "operator": "replace", "value": "text"}]}, "plaintext"),
        ({"fieldOverrider": [{"fieldPath": "/data/z", "json": []}]}, "fieldOverrider at /data/z"),
        ({"fieldOverrider": [{"fieldPath": "/data", "json": []}]}, "fieldOverrider at /data"),
        (
            {"fieldOverrider": [{"fieldPath": "/data/c.json", "json": [{"subPath": "/z", "operator": "remove"}]}]},
            "fieldOverrider at /data/c.json, remove at /z",
        ),
        (
            {"imageOverrider": [{"predicate": {"path": "/data/k/0"}, "operator": "remove"}]},
            "imageOverrider at /data/k/0",
        ),
        ({"imageOverrider": [{"predicate": {"path": "/data"}, "operator": "remove"}]}, "imageOverrider at /data"),
    ],
)
def test_an_error_names_policy_rule_and_place(overriders: dict[str, Any], where: str) -> None:
    failing = policy("bad", label("1"), {"overriders": overriders})
    with pytest.raises(OverrideError) as caught:
        overrides.apply(CONFIG, M1, [], [failing])
    assert (caught.value.policy, caught.value.rule, caught.value.where) == ("OverridePolicy default/bad", 1, where)


def test_an_error_is_short_enough_for_an_event() -> None:
    long = DEPLOYMENT | {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "A" * 100_000}]}}}}
    change = {"imageOverrider": [{"component": "Tag", "operator": "remove"}]}
    with pytest.raises(OverrideError, match="AAAA'… is no image reference: its name has upper-case letters") as caught:
        overrides.apply(long, M1, [], [policy("bad", {"overriders": change})])
    assert len(str(caught.value)) < 1_500


def test_an_object_of_the_wrong_shape_is_an_error() -> None:
    broken = DEPLOYMENT | {"spec": {"template": {"spec": {"containers": "none"}}}}
    with pytest.raises(OverrideError, match="containers"):
        overridden(broken, argsOverrider=[{"containerName": "a", "operator": "add", "value": ["x"]}])
    with pytest.raises(OverrideError, match="no valid Deployment"):
        overridden(broken, imageOverrider=[{"component": "Tag", "operator": "remove"}])


def test_applied_rules_are_recorded_in_order_of_application() -> None:
    found = overrides.apply(DEPLOYMENT, M1, [], [policy("a", label("1"), **BY_NAME), policy("z", label("2"))])
    assert [item.policy_name for item in found.applied_overrides] == ["z", "a"]

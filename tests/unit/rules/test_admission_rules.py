"""Admission: defaults, rules that the vectors reach rarely, and input that must never crash a server."""

import copy
from typing import Any

import pytest

from services._rules.admission import Admitted, Context, Denied, check_deletion
from services._rules.constants import (
    DELETION_PROTECTED_LABEL,
    DEPENDENCIES_ANNOTATION,
    PROPAGATION_POLICY_ID_LABEL,
)
from tests.support.admitting import admit

UUID = "8d3c1c3e-5d0b-4a52-9d58-3b0f8f6d7a11"
CONTEXT = Context(namespace="default", identity=UUID, now="2026-01-01T00:00:00Z")
DEPLOYMENTS = {"apiVersion": "apps/v1", "kind": "Deployment"}


def an_object(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default"} | metadata, "spec": spec}


def admitted(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    before = copy.deepcopy(obj)
    found = admit(kind, "UPDATE" if old else "CREATE", obj, old, CONTEXT)
    assert obj == before
    assert isinstance(found, Admitted), found
    return found.object


def refused(kind: str, obj: Any, old: dict[str, Any] | None = None, context: Context = CONTEXT) -> Denied:
    found = admit(kind, "UPDATE" if old else "CREATE", obj, old, context)
    assert isinstance(found, Denied)
    return found


def fields(found: Denied) -> list[str]:
    return [cause.field for cause in found.causes]


def test_a_policy_gets_a_fresh_identity_whatever_its_writer_says() -> None:
    written = an_object({"resourceSelectors": [DEPLOYMENTS]}, labels={PROPAGATION_POLICY_ID_LABEL: "stolen"})
    stored = admitted("PropagationPolicy", written)
    assert stored["metadata"]["labels"][PROPAGATION_POLICY_ID_LABEL] == UUID
    assert stored["spec"]["resourceSelectors"] == [DEPLOYMENTS | {"namespace": "default"}]
    assert admitted("PropagationPolicy", stored, stored) == stored


def test_a_policy_keeps_its_identity_and_scheduler() -> None:
    stored = admitted("PropagationPolicy", an_object({"resourceSelectors": [DEPLOYMENTS]}))
    bare = stored | {"metadata": {"name": "a", "namespace": "default"}}
    assert PROPAGATION_POLICY_ID_LABEL in refused("PropagationPolicy", bare, stored).message
    other = stored | {"spec": stored["spec"] | {"schedulerName": "mine"}}
    assert "schedulerName" in refused("PropagationPolicy", other, stored).message


def test_all_violations_are_reported_at_once() -> None:
    spec = {
        "resourceSelectors": [DEPLOYMENTS | {"namespace": "other"}],
        "preemption": "Always",
        "placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]},
        "suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}},
    }
    assert fields(refused("PropagationPolicy", an_object(spec))) == [
        "spec.placement",
        "spec.placement.clusterAffinities",
        "spec.resourceSelectors[0].namespace",
        "spec.resourceSelectors[0].name",
        "spec.suspension",
    ]


def test_dispatching_may_be_suspended_for_all_but_no_names() -> None:
    suspension = {"dispatching": True, "dispatchingOnClusters": {"clusterNames": []}}
    admitted("PropagationPolicy", an_object({"resourceSelectors": [DEPLOYMENTS], "suspension": suspension}))


def test_empty_override_rules_count_when_cluster_wide() -> None:
    spec = {"overrideRules": [], "targetCluster": {"clusterNames": ["m1"]}}
    assert "overrideRules" not in admitted("OverridePolicy", an_object(spec))["spec"]
    assert fields(refused("ClusterOverridePolicy", {"metadata": {"name": "a"}, "spec": spec})) == ["spec.targetCluster"]


@pytest.mark.parametrize("annotation", ["", "{", "{}", '"text"', '[{"kind":1}]'])
def test_a_binding_with_unreadable_dependencies_is_refused(annotation: str) -> None:
    binding = an_object({}, annotations={DEPENDENCIES_ANNOTATION: annotation})
    assert DEPENDENCIES_ANNOTATION in refused("ResourceBinding", binding).message


@pytest.mark.parametrize("annotation", ["null", "[]", '[{"kind":"Secret","name":"s","more":1}]'])
def test_a_binding_with_dependencies_is_admitted(annotation: str) -> None:
    binding = an_object({}, annotations={DEPENDENCIES_ANNOTATION: annotation})
    assert admitted("ResourceBinding", binding)["metadata"]["annotations"] == {DEPENDENCIES_ANNOTATION: annotation}


def test_components_need_names_of_their_own_once_enabled() -> None:
    binding = an_object({"components": [{"name": "a"}, {"name": "a"}, {}]})
    enabled = Context(identity=UUID, multiple_pod_templates=True)
    assert fields(refused("ResourceBinding", binding, context=enabled)) == [
        "spec.components[1].name",
        "spec.components[2].name",
    ]
    admitted("ResourceBinding", binding)


def test_only_the_exact_label_value_protects_from_deletion() -> None:
    protected = an_object({}, labels={DELETION_PROTECTED_LABEL: "Always"})
    assert isinstance(check_deletion(protected), Denied)
    assert isinstance(admit("Anything", "DELETE", None, protected), Denied)
    assert isinstance(check_deletion(an_object({}, labels={DELETION_PROTECTED_LABEL: "always"})), Admitted)


def test_a_kind_without_rules_is_admitted_as_it_is() -> None:
    obj = {"anything": 1}
    assert admit("ConfigMap", "CREATE", obj) == Admitted(obj)


@pytest.mark.parametrize(
    ("hook", "field"),
    [
        ({}, None),
        ({"name": "short"}, "webhooks[0].name"),
        ({"rules": [{"operations": ["Prune"]}]}, "webhooks[0].rules[0].operations[0]"),
        ({"rules": [{"operations": ["*", "Retain"]}]}, "webhooks[0].rules[0].operations"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://h/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://u:p@h/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"service": {"name": "s"}}}, "webhooks[0].clientConfig.service.namespace"),
        ({"interpreterContextVersions": ["v2"]}, "webhooks[0].interpreterContextVersions"),
    ],
)
def test_interpreter_webhooks(hook: dict[str, Any], field: str | None) -> None:
    rule = {"operations": ["Retain"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"]}
    whole = {
        "name": "a.example",
        "rules": [rule | item for item in hook.get("rules", [{}])],
        "clientConfig": hook.get("clientConfig", {"url": "https://h/path"}),
        "interpreterContextVersions": hook.get("interpreterContextVersions", ["v1alpha1"]),
    } | {name: value for name, value in hook.items() if name in ("name", "timeoutSeconds")}
    found = admit("ResourceInterpreterWebhookConfiguration", "CREATE", {"metadata": {}, "webhooks": [whole]})
    assert (fields(found) if isinstance(found, Denied) else []) == ([field] if field else [])


def test_a_cluster_without_models_gets_the_default_ones_once() -> None:
    cluster = {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "zone": "z1"}, "status": {"x": 1}}
    stored = admitted("Cluster", cluster)
    assert [model["grade"] for model in stored["spec"]["resourceModels"]] == list(range(9))
    assert stored["spec"]["resourceModels"][-1]["ranges"][1] == {"name": "memory", "min": "1Ti", "max": str(2**63 - 1)}
    assert (stored["metadata"]["generation"], stored["status"], stored["spec"]["zones"]) == (1, {}, ["z1"])
    emptied = stored | {"spec": {"syncMode": "Push", "zones": ["z1"]}}
    changed = admitted("Cluster", emptied, stored)
    assert "resourceModels" not in changed["spec"]
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": None, "spec": None},
        {"metadata": {}, "spec": {}},
        {"metadata": [], "spec": {}},
        {"metadata": {"labels": {"a": None}}, "spec": {}, "status": None},
        {"spec": {"resourceSelectors": [None], "overrideRules": [None], "rules": [None], "metrics": [None]}},
        {
            "spec": {
                "placement": {"clusterAffinities": [None], "spreadConstraints": [None], "clusterTolerations": [None]}
            }
        },
        {"spec": {"overall": {"cpu": None, "memory": "1e999"}, "staticAssignments": [None]}},
        {"spec": {"resourceModels": [None, {"ranges": [None]}], "taints": [None], "zones": [None]}},
        {"spec": {"workload": {"manifests": [None]}}},
        {"spec": {"workload": {"manifests": [{"kind": "Pod", "metadata": 1}]}}},
        {"spec": {"types": [None], "ports": [None], "providerClusters": [None], "tls": [{"hosts": [None]}]}},
        {"spec": {"backendStore": {"openSearch": {"addresses": [None, "http://[::1"]}}}},
        {"webhooks": [None, {"rules": [None], "clientConfig": None}]},
        {"spec": 7},
    ],
)
def test_odd_objects_are_answered_for_every_kind(obj: dict[str, Any]) -> None:
    kinds = (
        "PropagationPolicy ClusterPropagationPolicy OverridePolicy ClusterOverridePolicy ResourceBinding Work Cluster"
        " ClusterResourceBinding FederatedHPA CronFederatedHPA FederatedResourceQuota ClusterTaintPolicy"
        " MultiClusterService MultiClusterIngress ResourceInterpreterCustomization ResourceRegistry"
        " ResourceInterpreterWebhookConfiguration"
    )
    for kind in kinds.split():
        for old in (None, obj):
            found = admit(kind, "UPDATE" if old else "CREATE", obj, old, CONTEXT)
            assert isinstance(found, Admitted | Denied)
            if isinstance(found, Denied):
                assert found.message

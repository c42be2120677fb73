"""Defaults and life-cycle rules of the built-in kinds."""

from typing import Any

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.workloads.pods import qos_class

REGISTRY = builtin_registry()
CONTAINER = {"name": "c", "image": "img:1"}


def kind_of(api_version: str, name: str) -> Kind:
    found = REGISTRY.by_api_version(api_version, name)
    assert found is not None
    return found


def created(api_version: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    kind = kind_of(api_version, name)
    body.setdefault("metadata", {}).setdefault("name", "x")
    kind.decode(body)
    kind.default(body)
    body["metadata"]["uid"] = "8a7f6a1e-0000-4000-8000-000000000000"
    kind.prepare_create(body)
    return body


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [dict(CONTAINER)], **spec}}


def test_a_deployment_gets_strategy_history_and_deadline() -> None:
    found = created(
        "apps/v1", "Deployment", {"spec": {"template": template(), "selector": {"matchLabels": {"app": "a"}}}}
    )
    spec = found["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Always"
    assert pod["dnsPolicy"] == "ClusterFirst"
    assert pod["securityContext"] == {}
    assert "enableServiceLinks" not in pod
    assert found["metadata"]["generation"] == 1
    assert found["status"] == {}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:2", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    found = created("v1", "Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert found["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_pod_starts_pending_with_tolerations() -> None:
    found = created("v1", "Pod", {"spec": {"containers": [dict(CONTAINER)]}, "status": {"phase": "Running"}})
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert [item["key"] for item in found["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_a_pod_that_tolerates_everything_gets_no_more_tolerations() -> None:
    body = {"spec": {"containers": [dict(CONTAINER)], "tolerations": [{"operator": "Exists"}]}}
    assert created("v1", "Pod", body)["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_requests_and_limits(resources: dict[str, Any], expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected


def test_volumes_and_probes_are_filled_in() -> None:
    probe = {"httpGet": {"port": 80}}
    volumes = [{"name": "a", "configMap": {"name": "c"}}, {"name": "b"}, {"name": "d", "hostPath": {"path": "/x"}}]
    pod = {"spec": {"containers": [{**CONTAINER, "livenessProbe": probe}], "volumes": volumes}}
    spec = created("v1", "Pod", pod)["spec"]
    assert spec["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert spec["volumes"][0]["configMap"]["defaultMode"] == 420
    assert spec["volumes"][1] == {"name": "b", "emptyDir": {}}
    assert spec["volumes"][2]["hostPath"] == {"path": "/x", "type": ""}


def test_a_job_gets_its_own_selector_and_labels() -> None:
    found = created("batch/v1", "Job", {"spec": {"template": {"spec": {"containers": [dict(CONTAINER)]}}}})
    uid = found["metadata"]["uid"]
    assert found["spec"]["selector"] == {"matchLabels": {"controller-uid": uid}}
    assert found["spec"]["template"]["metadata"]["labels"] == {"controller-uid": uid, "job-name": "x"}
    assert (found["spec"]["completions"], found["spec"]["parallelism"], found["spec"]["backoffLimit"]) == (1, 1, 6)


def test_a_service_gets_target_ports_and_type() -> None:
    found = created("v1", "Service", {"spec": {"ports": [{"port": 80}]}})
    assert found["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    assert found["status"] == {"loadBalancer": {}}


def test_a_secret_moves_plain_text_into_data() -> None:
    found = created("v1", "Secret", {"stringData": {"a": "hi"}, "data": {"a": "eA==", "b": "eQ=="}})
    assert found["data"] == {"a": "aGk=", "b": "eQ=="}
    assert found["type"] == "Opaque"
    assert "stringData" not in found


def test_a_namespace_starts_active_with_its_finalizer() -> None:
    found = created("v1", "Namespace", {})
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["status"] == {"phase": "Active"}


@pytest.mark.parametrize(
    ("kind", "finalizer"),
    [
        ("PersistentVolumeClaim", "kubernetes.io/pvc-protection"),
        ("PersistentVolume", "kubernetes.io/pv-protection"),
    ],
)
def test_a_recorded_release_protects_claims_and_volumes(kind: str, finalizer: str) -> None:
    served = builtin_registry("1.20").by_kind("", "v1", kind)
    assert served is not None
    obj: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}}
    served.prepare_create(obj)
    assert obj["metadata"]["finalizers"] == [finalizer]


def test_claims_and_volumes_have_nobody_to_free_them_and_can_be_deleted() -> None:
    claim = created("v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteOnce"]}})
    assert "finalizers" not in claim["metadata"]
    assert claim["status"] == {"phase": "Pending"}
    volume = created("v1", "PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}})
    assert "finalizers" not in volume["metadata"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_role_bindings_get_api_groups() -> None:
    body = {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}
    found = created("rbac.authorization.k8s.io/v1", "RoleBinding", body)
    assert found["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert found["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("field", "value", "generation"),
    [("replicas", 5, 2), ("replicas", 1, 1)],
)
def test_the_generation_rises_only_with_the_spec(field: str, value: int, generation: int) -> None:
    kind = kind_of("apps/v1", "Deployment")
    old = created("apps/v1", "Deployment", {"spec": {"template": template()}})
    new = {**old, "metadata": {**old["metadata"], "labels": {"n": "1"}}, "spec": {**old["spec"], field: value}}
    new["status"] = {"replicas": 9}
    kind.prepare_update(new, old)
    assert new["metadata"]["generation"] == generation
    assert new["status"] == {}


def test_annotations_of_a_deployment_count_as_a_change_of_it() -> None:
    kind = kind_of("apps/v1", "Deployment")
    old = created("apps/v1", "Deployment", {"spec": {"template": template()}})
    new = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}}}
    kind.prepare_update(new, old)
    assert new["metadata"]["generation"] == 2


def test_a_status_write_keeps_the_rest() -> None:
    kind = kind_of("apps/v1", "ReplicaSet")
    old = created("apps/v1", "ReplicaSet", {"spec": {"template": template()}})
    new = {**old, "metadata": dict(old["metadata"]), "spec": {"replicas": 9}, "status": {"replicas": 3}, "odd": 1}
    kind.prepare_status(new, old)
    assert new["spec"] == old["spec"]
    assert new["status"] == {"replicas": 3}
    assert "odd" not in new
    assert new["metadata"]["generation"] == 1


def test_a_config_map_has_no_generation() -> None:
    kind = kind_of("v1", "ConfigMap")
    old = created("v1", "ConfigMap", {"data": {"a": "1"}})
    new = {**old, "metadata": dict(old["metadata"]), "data": {"a": "2"}}
    kind.prepare_update(new, old)
    assert "generation" not in new["metadata"]


def test_a_daemon_set_counts_template_changes_in_an_annotation() -> None:
    kind = kind_of("apps/v1", "DaemonSet")
    old = created("apps/v1", "DaemonSet", {"spec": {"template": template()}})
    key = "deprecated.daemonset.template.generation"
    assert old["metadata"]["annotations"] == {key: "1"}
    new = {**old, "metadata": {**old["metadata"], "annotations": {}}}
    new["spec"] = {**old["spec"], "template": template(hostPID=True)}
    kind.prepare_update(new, old)
    assert new["metadata"]["annotations"] == {key: "2"}


def test_a_service_that_becomes_internal_loses_its_node_ports() -> None:
    kind = kind_of("v1", "Service")
    old = created("v1", "Service", {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}})
    old["spec"] |= {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
    new = {**old, "metadata": dict(old["metadata"])}
    new["spec"] = {**old["spec"], "type": "ClusterIP", "ports": [dict(old["spec"]["ports"][0])]}
    kind.prepare_update(new, old)
    assert "nodePort" not in new["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in new["spec"]
    assert kind.validate_update(new, old) == []


@pytest.mark.parametrize(
    ("api_version", "name", "obj", "expected"),
    [
        (
            "v1",
            "Pod",
            {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
            {"spec.nodeName": "n", "status.phase": "Running"},
        ),
        ("v1", "Secret", {"type": "Opaque"}, {"type": "Opaque"}),
        ("v1", "Node", {"spec": {"unschedulable": True}}, {"spec.unschedulable": "true"}),
        ("v1", "Event", {"involvedObject": {"name": "p"}, "reason": "R"}, {"involvedObject.name": "p", "reason": "R"}),
        ("batch/v1", "Job", {"status": {"succeeded": 2}}, {"status.successful": "2"}),
    ],
)
def test_field_selectors_show_the_fields_of_the_kind(
    api_version: str, name: str, obj: dict[str, Any], expected: dict[str, str]
) -> None:
    kind = kind_of(api_version, name)
    fields = kind.field_selectors({"metadata": {"name": "a", "namespace": "d"}, **obj})
    assert expected.items() <= fields.items()
    assert fields["metadata.name"] == "a"
    assert kind.selectable_fields() == fields.keys()

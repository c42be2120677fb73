"""Whether a write would change the live object: defaults are none of ours, drift and removed fields are."""

import copy
from typing import Any

import pytest

from services._rules.delivery.semantic_equal import needs_update

DESIRED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "prod", "labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {},
        "template": {
            "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
            "spec": {
                "hostNetwork": False,
                "containers": [
                    {
                        "name": "c",
                        "image": "nginx",
                        "ports": [{"containerPort": 80}],
                        "env": [{"name": "A", "value": ""}],
                        "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}},
                    }
                ],
            },
        },
    },
}


def live_deployment() -> dict[str, Any]:
    """The object as a server stores it: defaulted, canonical, with status."""
    live = copy.deepcopy(DESIRED)
    live["metadata"].update(uid="u", resourceVersion="7", generation=3, managedFields=[{"manager": "x"}])
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "1"
    live["status"] = {"replicas": 2}
    spec = live["spec"]
    spec.update(progressDeadlineSeconds=600, revisionHistoryLimit=10)
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    del spec["template"]["metadata"]["creationTimestamp"]
    pod = spec["template"]["spec"]
    del pod["hostNetwork"]
    pod.update(dnsPolicy="ClusterFirst", restartPolicy="Always", securityContext={})
    container = pod["containers"][0]
    container["ports"] = [{"containerPort": 80, "protocol": "TCP"}]
    container["env"] = [{"name": "A"}]
    container["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    container["imagePullPolicy"] = "Always"
    return live


def changed(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(obj)
    at: Any = result
    *way, last = path.split("/")
    for name in way:
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
    if value is None:
        at.pop(last)
    else:
        at[last] = value
    return result


def test_a_defaulted_deployment_needs_no_write() -> None:
    assert not needs_update(DESIRED, live_deployment())
    assert not needs_update(DESIRED, live_deployment(), DESIRED)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/labels/app", "other"),
        ("metadata/annotations/note", None),
        ("spec/replicas", 3),
        ("spec/template/metadata/annotations", {"restarted": "now"}),
        ("spec/template/metadata/labels/extra", "1"),
        ("spec/template/spec/hostNetwork", True),
        ("spec/template/spec/containers/0/image", "nginx:2"),
        ("spec/template/spec/containers/0/env/0/value", "x"),
        ("spec/template/spec/containers/0/resources/requests/cpu", "501m"),
        ("spec/template/spec/containers", [{"name": "d", "image": "nginx"}]),
    ],
)
def test_drift_in_a_field_of_ours_needs_a_write(path: str, value: Any) -> None:
    if path.endswith("template/metadata/annotations"):
        desired = changed(DESIRED, path, {})
    else:
        desired = DESIRED
    assert needs_update(desired, changed(live_deployment(), path, value), desired)


def test_an_added_container_is_drift() -> None:
    live = live_deployment()
    live["spec"]["template"]["spec"]["containers"].append({"name": "more", "image": "x"})
    assert needs_update(DESIRED, live)


def test_order_of_entries_with_an_identity_does_not_count() -> None:
    two = changed(DESIRED, "spec/template/spec/volumes", [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {}}])
    live = changed(
        live_deployment(), "spec/template/spec/volumes", [{"name": "b", "hostPath": {}}, {"name": "a", "emptyDir": {}}]
    )
    assert not needs_update(two, live)
    live["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = "/x"
    assert needs_update(
        changed(two, "spec/template/spec/volumes/1/hostPath/path", "/y"),
        live,
    )


def test_a_field_applied_before_and_dropped_needs_a_write_once() -> None:
    before = changed(DESIRED, "spec/template/spec/priorityClassName", "high")
    live = changed(live_deployment(), "spec/template/spec/priorityClassName", "high")
    assert not needs_update(before, live, before)
    assert needs_update(DESIRED, live, before)
    assert not needs_update(DESIRED, live_deployment(), before)


def test_removed_labels_and_annotations_are_found_by_either_record() -> None:
    before = changed(DESIRED, "metadata/labels/gone", "1")
    live = changed(live_deployment(), "metadata/labels/gone", "1")
    assert not needs_update(DESIRED, live)
    assert needs_update(DESIRED, live, before)
    live["metadata"]["annotations"]["resourcetemplate.karmada.io/managed-labels"] = "app,gone"
    assert needs_update(DESIRED, live)
    live = changed(live_deployment(), "metadata/annotations/left", "1")
    live["metadata"]["annotations"]["resourcetemplate.karmada.io/managed-annotations"] = "left,note"
    assert needs_update(DESIRED, live)


def test_labels_of_others_need_no_write() -> None:
    assert not needs_update(DESIRED, changed(live_deployment(), "metadata/labels/theirs", "1"), DESIRED)


def test_a_service_with_allocated_addresses_needs_no_write() -> None:
    desired: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    live = copy.deepcopy(desired)
    live["spec"].update(clusterIP="10.0.0.9", clusterIPs=["10.0.0.9"], type="ClusterIP", ipFamilies=["IPv4"])
    live["spec"]["ports"] = [{"port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30000}]
    assert not needs_update(desired, live, desired)
    assert needs_update(desired, changed(live, "spec/selector/more", "x"), desired)
    assert needs_update(desired, changed(live, "spec/ports/0/targetPort", "8080"), desired)


def test_the_whole_content_of_a_config_map_is_ours() -> None:
    desired = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    live = {**desired, "metadata": {"name": "c", "uid": "u"}}
    assert not needs_update(desired, live)
    assert needs_update(desired, {**live, "data": {"a": "1", "b": "2"}})
    assert needs_update(desired, {**live, "binaryData": {"b": "AA=="}})
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert needs_update(empty, live)
    assert not needs_update({**empty, "data": {}}, {**empty})


def test_plain_texts_of_a_secret_are_compared_encoded() -> None:
    desired = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": {"k": "dg=="}}
    assert not needs_update(desired, live, desired)
    assert needs_update(desired, {**live, "data": {"k": "dw=="}})


def test_a_custom_resource_keeps_its_zeros_and_may_be_defaulted() -> None:
    desired = {
        "apiVersion": "example.io/v1",
        "kind": "Custom",
        "metadata": {"name": "c"},
        "spec": {"size": 0, "text": "", "hosts": ["a"], "unset": None},
    }
    live = {**desired, "spec": {"size": 0, "text": "", "hosts": ["a"], "mode": "auto"}, "status": {"x": 1}}
    assert not needs_update(desired, live, desired)
    for name in ("size", "text"):
        assert needs_update(desired, changed(live, f"spec/{name}", None))
    assert needs_update(desired, changed(live, "spec/hosts", ["a", "b"]))
    assert needs_update(desired, live, changed(desired, "spec/mode", "auto"))


def test_entries_that_admission_adds_to_a_pod_need_no_write() -> None:
    desired: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}], "tolerations": [{"key": "k", "operator": "Exists"}]},
    }
    live = copy.deepcopy(desired)
    live["spec"]["tolerations"].append({"key": "node.kubernetes.io/not-ready", "operator": "Exists"})
    live["spec"]["containers"].append({"name": "sidecar", "image": "y"})
    assert not needs_update(desired, live)
    assert needs_update(desired, changed(live, "spec/containers/0/image", "z"))

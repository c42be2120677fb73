"""The built-in interpretation by kind: replicas, retention, status, health, dependencies, pruning."""

from typing import Any

import pytest

from services._rules.interpreter import InterpretError, NativeInterpreter, Operation
from services._rules.interpreter.native.prune import prune

NATIVE = NativeInterpreter()
NOW = "2026-03-01T10:00:00Z"


def deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "prod", "generation": 4},
        "spec": spec,
    }


def pod_spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "nginx", **more}]}


def report(cluster: str, **status: Any) -> dict[str, Any]:
    return {"clusterName": cluster, "applied": True, "health": "Healthy", "status": status}


def test_limits_stand_in_for_missing_requests_and_the_largest_init_container_counts() -> None:
    template = {
        "spec": {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "memory": "1024Mi"}}},
                {"name": "b", "resources": {"requests": {"cpu": 0.5, "example.com/gpu": "1"}}},
            ],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "900m", "memory": "1Ki"}}}],
            "overhead": {"cpu": "50m"},
        }
    }
    replicas, requirements = NATIVE.interpret(Operation.REPLICA, deployment(replicas=3, template=template))
    assert replicas == 3
    assert requirements == {"resourceRequest": {"cpu": "950m", "memory": "1Gi", "example.com/gpu": "1"}}


def test_requirements_are_absent_where_nothing_is_required() -> None:
    assert NATIVE.interpret(Operation.REPLICA, deployment(replicas=None, template={"spec": pod_spec()})) == (0, None)


def test_quota_estimation_adds_namespace_and_priority_class() -> None:
    template = {"spec": {**pod_spec(), "priorityClassName": "high", "nodeSelector": {"disk": "ssd"}}}
    _, requirements = NATIVE.interpret(Operation.REPLICA, deployment(template=template), True)
    claim = {"nodeSelector": {"disk": "ssd"}}
    assert requirements == {"nodeClaim": claim, "priorityClassName": "high", "namespace": "prod"}


def test_a_job_never_counts_more_replicas_than_completions() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 5}}
    assert NATIVE.interpret(Operation.REPLICA, job)[0] == 5
    assert NATIVE.interpret(Operation.REPLICA, {**job, "spec": {"parallelism": 5, "completions": 3}})[0] == 3


def test_replicas_are_revised_only_where_the_field_exists_and_the_input_stays() -> None:
    given = deployment(replicas=2, paused=True)
    revised = NATIVE.interpret(Operation.REVISE, given, 7)
    assert revised["spec"] == {"replicas": 7, "paused": True}
    assert given["spec"]["replicas"] == 2
    assert revised["metadata"] is given["metadata"]
    without = deployment(paused=True)
    assert NATIVE.interpret(Operation.REVISE, without, 7) is without


def test_a_wrong_type_names_the_field() -> None:
    with pytest.raises(InterpretError) as caught:
        NATIVE.interpret(Operation.REPLICA, deployment(template={"spec": {"containers": [{"name": 7}]}}))
    assert caught.value.field == "spec.template.spec.containers[0].name"
    with pytest.raises(InterpretError, match=r"spec\.replicas: is a text"):
        NATIVE.interpret(Operation.REVISE, deployment(replicas="2"), 3)


def test_replicas_are_retained_only_on_request() -> None:
    live = deployment(replicas=9)
    plain = deployment(replicas=2)
    assert NATIVE.interpret(Operation.RETAIN, plain, live) is plain
    labelled = {**plain, "metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}}
    assert NATIVE.interpret(Operation.RETAIN, labelled, live)["spec"]["replicas"] == 9
    with pytest.raises(InterpretError, match="retained"):
        NATIVE.interpret(Operation.RETAIN, labelled, deployment())


def test_a_service_keeps_its_allocated_address_but_not_its_node_ports() -> None:
    desired = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    live = {**desired, "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30001}]}}
    assert NATIVE.interpret(Operation.RETAIN, desired, live)["spec"] == {
        "clusterIP": "10.0.0.9",
        "ports": [{"port": 80}],
    }


def test_observed_generation_advances_once_every_member_is_current() -> None:
    template = {**deployment(template={"spec": pod_spec()}), "status": {"observedGeneration": 3}}
    counters = {"replicas": 2, "readyReplicas": 2, "resourceTemplateGeneration": 4}
    current = report("m1", generation=7, observedGeneration=7, **counters)
    lagging = report("m2", generation=5, observedGeneration=4, **counters)
    status = NATIVE.interpret(Operation.AGGREGATE, template, [current, lagging], NOW)["status"]
    assert (status["replicas"], status["readyReplicas"], status["observedGeneration"]) == (4, 4, 3)
    caught_up = report("m2", generation=5, observedGeneration=5, **counters)
    assert (
        NATIVE.interpret(Operation.AGGREGATE, template, [current, caught_up], NOW)["status"]["observedGeneration"] == 4
    )
    silent = {"clusterName": "m3", "applied": True, "health": "Unknown"}
    status = NATIVE.interpret(Operation.AGGREGATE, template, [current, caught_up, silent], NOW)["status"]
    assert status["observedGeneration"] == 3


def test_an_unchanged_status_gives_the_same_object_back() -> None:
    items = [report("m1", replicas=1, generation=1, observedGeneration=1, resourceTemplateGeneration=4)]
    once = NATIVE.interpret(Operation.AGGREGATE, deployment(), items, NOW)
    assert NATIVE.interpret(Operation.AGGREGATE, once, items, NOW) is once


def test_a_job_fails_by_its_members_and_then_stays() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
    failed = {"type": "Failed", "status": "True"}
    items = [report("m1", failed=1, conditions=[failed]), report("m2", active=1), report("m3", conditions=[failed])]
    result = NATIVE.interpret(Operation.AGGREGATE, job, items, NOW)
    (condition,) = result["status"]["conditions"]
    assert condition["message"] == "Job executed failed in member clusters m1,m3"
    assert condition["lastTransitionTime"] == NOW
    assert NATIVE.interpret(Operation.AGGREGATE, result, [report("m1", succeeded=9)], NOW) is result


def test_a_job_completes_with_the_latest_end_and_the_earliest_start() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
    done = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
    times = [("2026-01-01T08:00:00Z", "2026-01-01T09:00:00Z"), ("2026-01-01T09:30:00+02:00", "2026-01-01T08:30:00Z")]
    items = [
        report(f"m{i}", conditions=done, startTime=start, completionTime=end) for i, (start, end) in enumerate(times)
    ]
    status = NATIVE.interpret(Operation.AGGREGATE, job, items, NOW)["status"]
    assert [c["type"] for c in status["conditions"]] == ["Complete", "SuccessCriteriaMet"]
    assert (status["startTime"], status["completionTime"]) == ("2026-01-01T07:30:00Z", "2026-01-01T09:00:00Z")


def test_pod_phases_and_missing_reports() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()}
    items = [report("m1", phase="Running"), {"clusterName": "m2"}]
    assert NATIVE.interpret(Operation.AGGREGATE, pod, items, NOW)["status"]["phase"] == "Pending"
    assert NATIVE.interpret(Operation.AGGREGATE, pod, None, NOW) is pod


def test_load_balancer_entries_are_merged_and_sorted() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "LoadBalancer"}}
    entries = [{"ip": "10.0.0.2", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "b"}]
    again = [{"ip": "10.0.0.2", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 79, "protocol": "TCP"}]}]
    items = [report("m1", loadBalancer={"ingress": entries}), report("m2", loadBalancer={"ingress": again})]
    merged = NATIVE.interpret(Operation.AGGREGATE, service, items, NOW)["status"]["loadBalancer"]["ingress"]
    assert merged == [
        {"hostname": "b"},
        {"ip": "10.0.0.2", "ports": [{"port": 79, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]},
    ]
    internal = {**service, "spec": {"type": "ClusterIP"}}
    assert NATIVE.interpret(Operation.AGGREGATE, internal, items, NOW) is internal


def test_a_garbled_load_balancer_is_not_collected() -> None:
    live = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "LoadBalancer"}}
    with pytest.raises(InterpretError, match=r"status\.loadBalancer\.ingress"):
        NATIVE.interpret(Operation.STATUS, {**live, "status": {"loadBalancer": {"ingress": [{"hostname": 7}]}}})


@pytest.mark.parametrize("annotation", [None, "", "1.5", "x", "9223372036854775808"])
def test_workload_status_needs_the_templates_generation(annotation: str | None) -> None:
    live = {**deployment(), "status": {"replicas": 1}}
    live["metadata"] = {"annotations": {"resourcetemplate.karmada.io/generation": annotation} if annotation else {}}
    with pytest.raises(InterpretError, match="generation"):
        NATIVE.interpret(Operation.STATUS, live)


def test_what_is_wrong_is_told_in_a_text_short_enough_for_an_event() -> None:
    live = {**deployment(), "status": {"replicas": 1}}
    live["metadata"] = {"annotations": {"resourcetemplate.karmada.io/generation": "x" * 200_000}}
    with pytest.raises(InterpretError) as told:
        NATIVE.interpret(Operation.STATUS, live)
    assert len(str(told.value)) < 1_500


def test_workload_status_carries_both_generations() -> None:
    live = {**deployment(), "status": {"replicas": 2, "conditions": [], "observedGeneration": 4}}
    live["metadata"] = {"generation": 4, "annotations": {"resourcetemplate.karmada.io/generation": "11"}}
    assert NATIVE.interpret(Operation.STATUS, live) == {
        "generation": 4,
        "resourceTemplateGeneration": 11,
        "observedGeneration": 4,
        "replicas": 2,
    }


@pytest.mark.parametrize(
    ("status", "healthy"),
    [
        ({"observedGeneration": 4, "updatedReplicas": 2, "availableReplicas": 2}, True),
        ({"observedGeneration": 3, "updatedReplicas": 2, "availableReplicas": 2}, False),
        ({"observedGeneration": 4, "updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"observedGeneration": 4, "updatedReplicas": 2, "availableReplicas": 1}, False),
    ],
)
def test_deployment_health(status: dict[str, int], healthy: bool) -> None:
    assert NATIVE.interpret(Operation.HEALTH, {**deployment(replicas=2), "status": status}) is healthy


def test_dependencies_by_kind_and_name() -> None:
    spec = {
        **pod_spec(
            env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "z", "key": "k"}}}],
            envFrom=[{"configMapRef": {"name": "cm"}}, {"configMapRef": {"name": ""}}],
        ),
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "a"}],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "p", "projected": {"sources": [{"configMap": {"name": "cm"}}]}},
        ],
    }
    found = NATIVE.interpret(Operation.DEPENDENCY, deployment(template={"spec": spec}))
    assert [(r["kind"], r["namespace"], r["name"]) for r in found] == [
        ("ConfigMap", "prod", "cm"),
        ("Secret", "prod", "a"),
        ("Secret", "prod", "z"),
        ("ServiceAccount", "prod", "robot"),
        ("PersistentVolumeClaim", "prod", "data"),
    ]


def test_an_ingress_with_a_nameless_certificate_has_no_valid_dependencies() -> None:
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "i", "namespace": "n"},
        "spec": {"tls": [{"hosts": ["a"]}]},
    }
    with pytest.raises(InterpretError, match="name or a labelSelector"):
        NATIVE.interpret(Operation.DEPENDENCY, ingress)


def test_pruning_goes_by_kind_alone_and_leaves_the_input() -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "uid": "u", "finalizers": ["f"], "labels": {"a": "b"}},
        "spec": {"ttlSecondsAfterFinished": 5, "selector": {"matchLabels": {"controller-uid": "u"}}},
        "status": {"active": 1},
    }
    pruned = prune(job)
    assert pruned == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"a": "b"}},
        "spec": {"selector": {"matchLabels": {}}},
    }
    assert "status" in job
    assert prune(job, hooks=())["spec"]["ttlSecondsAfterFinished"] == 5


def test_other_kinds_have_their_status_collected_and_nothing_else() -> None:
    custom = {"apiVersion": "example.io/v1", "kind": "Custom", "metadata": {"name": "c"}, "status": {"x": 1}}
    assert NATIVE.interpret(Operation.STATUS, custom) == {"x": 1}
    assert NATIVE.interpret(Operation.STATUS, {**custom, "status": {}}) == {}
    assert NATIVE.hook_enabled("example.io/v1", "Custom", "InterpretStatus")
    assert not NATIVE.hook_enabled("extensions/v1beta1", "Ingress", "InterpretHealth")
    for ask in (
        lambda: NATIVE.interpret(Operation.REPLICA, custom),
        lambda: NATIVE.interpret(Operation.RETAIN, custom, custom),
        lambda: NATIVE.interpret(Operation.HEALTH, custom),
        lambda: NATIVE.interpret(Operation.COMPONENT, custom),
        lambda: NATIVE.interpret(Operation.AGGREGATE, custom, [], NOW),
    ):
        with pytest.raises(InterpretError, match=r"no interpreter offers \w+ for example\.io/v1 Custom"):
            ask()

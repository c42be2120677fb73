"""Autoscaling as users meet it, in push and pull members: metrics, schedules, and autoscalers of the members."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import Space, clusters, propagation, weighed
from tests.support.commands import run_command

PUSH, PULL = "member1", "member3"
HALVES = weighed(**{PUSH: 1, PULL: 1})
"""As many replicas in the push member as in the pull member."""
RETAIN = "resourcetemplate.karmada.io/retain-replicas"
EVERY_MINUTE = "*/1 * * * *"
CPU: Manifest = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


@pytest.fixture(scope="module")
def ground(fleet: Fleet) -> Iterator[Space]:
    """The namespace of these tests; schedules are there first, as a minute goes by until they have run."""
    with namespace(fleet, "autoscaling") as made:
        for name in ("plain", "limited"):
            deployment(made, name, 2)
        autoscaler(made, "limited", [CPU], least=1)
        schedule(made, "plain", {"apiVersion": "apps/v1", "kind": "Deployment"}, targetReplicas=5)
        fhpa = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA"}
        schedule(made, "limited", fhpa, targetMinReplicas=5)
        yield made


def deployment(space: Space, name: str, replicas: int) -> None:
    """A Deployment whose pods request cpu, and its policy; running in both members."""
    resources = {"requests": {"cpu": "100m"}}
    container = {"name": "main", "image": "nginx:1.27", "resources": resources}
    labels = {"app": name}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": space.name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    space.policy(space.apply(manifest), HALVES)
    until_equal(f"replicas of {name}", lambda: running(space, name), {PUSH: replicas // 2, PULL: replicas // 2})


def autoscaler(space: Space, name: str, metrics: list[Manifest], least: int, **annotations: str) -> None:
    """A FederatedHPA of the Deployment of its name, with at most 8 replicas."""
    space.apply(
        {
            "apiVersion": "autoscaling.karmada.io/v1alpha1",
            "kind": "FederatedHPA",
            "metadata": {"name": name, "namespace": space.name, "annotations": annotations},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": least,
                "maxReplicas": 8,
                "metrics": metrics,
            },
        }
    )


def schedule(space: Space, name: str, target: Manifest, **rule: int) -> None:
    """A CronFederatedHPA with one rule that runs at every minute."""
    space.apply(
        {
            "apiVersion": "autoscaling.karmada.io/v1alpha1",
            "kind": "CronFederatedHPA",
            "metadata": {"name": name, "namespace": space.name},
            "spec": {
                "scaleTargetRef": {**target, "name": name},
                "rules": [{"name": "up", "schedule": EVERY_MINUTE, **rule}],
            },
        }
    )


def running(space: Space, name: str) -> dict[str, int]:
    """Ready replicas of a Deployment by member."""
    found = {}
    for member in (PUSH, PULL):
        held = space.held(member, "deployment", name)
        if held is not None:
            found[member] = int((held.get("status") or {}).get("readyReplicas", 0))
    return found


def replicas(space: Space, name: str) -> int:
    """Replicas of the template."""
    return int((space.control.get("deployment", name, space.name) or {})["spec"]["replicas"])


def conditions(space: Space, name: str) -> dict[str, str]:
    """Reasons of the conditions of a FederatedHPA."""
    status = (space.control.get("fhpa", name, space.name) or {}).get("status") or {}
    return {item["type"]: item["reason"] for item in status.get("conditions", ())}


def told(space: Space, name: str, reason: str) -> bool:
    """Whether an Event says that replicas were changed for this reason."""
    return any(kind == "SuccessfulRescale" and reason in message for _, kind, message in space.events(name))


def sim(space: Space, *words: str) -> None:
    """`fleetlog sim` about this namespace."""
    done = run_command("fleetlog", "sim", *words, "-n", space.name, "--dir", str(space.fleet.layout.directory))
    assert done.returncode == 0, done.stderr


def test_cpu_load_scales_over_both_members_and_back(ground: Space) -> None:
    deployment(ground, "web", 2)
    sim(ground, "load", "deploy/web", "--cpu", "90%")
    autoscaler(ground, "web", [CPU], least=1)
    until_equal("all replicas, halved", lambda: running(ground, "web"), {PUSH: 4, PULL: 4})
    until_equal("what limits it", lambda: conditions(ground, "web").get("ScalingLimited"), "TooManyReplicas")
    row = ground.control.run("get", "fhpa", "web", "--no-headers", namespace=ground.name).split()
    assert row[1:6] == ["Deployment", "web", "1", "8", "8"], row
    status = (ground.control.get("fhpa", "web", ground.name) or {})["status"]
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 90
    until(
        "the Event of a step up", lambda: told(ground, "web", "cpu resource utilization (percentage of request) above")
    )
    sim(ground, "load", "deploy/web", "--cpu", "5%")
    until_equal("the last replica", lambda: replicas(ground, "web"), 1)
    until_equal("one pod", lambda: sum(running(ground, "web").values()), 1)
    until("the Event of the step down", lambda: told(ground, "web", "All metrics below target"))


def test_custom_metric_of_pods_scales_over_both_members(ground: Space) -> None:
    deployment(ground, "api", 2)
    sim(ground, "metric", "http_requests", "--of", "deploy/api", "--value", "2")
    target = {"type": "AverageValue", "averageValue": "700m"}
    autoscaler(ground, "api", [{"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": target}}], 1)
    until_equal("all replicas, halved", lambda: running(ground, "api"), {PUSH: 4, PULL: 4})
    path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{ground.name}/pods/*/http_requests"
    pods = {pod["metadata"]["name"] for member in (PUSH, PULL) for pod in _pods(ground, member)}

    def values() -> dict[str, str]:
        found = json.loads(ground.control.run("get", "--raw", f"{path}?labelSelector=app%3Dapi"))
        return {item["describedObject"]["name"]: item["value"] for item in found["items"]}

    assert len(pods) == 8
    until_equal("the metric of each pod", values, dict.fromkeys(pods, "2"))
    sim(ground, "metric", "http_requests", "--of", "deploy/api", "--value", "100m")
    until_equal("fewer replicas", lambda: replicas(ground, "api"), 2)
    assert conditions(ground, "api")["ScalingActive"] == "ValidMetricFound"


def test_external_metric_scales_to_zero_and_back(ground: Space) -> None:
    deployment(ground, "worker", 2)
    sim(ground, "metric", "queue_depth", "--value", "20")
    metric = {"metric": {"name": "queue_depth"}, "target": {"type": "AverageValue", "averageValue": "15"}}
    told = {"fleetlog.io/scale-to-zero": "true"}
    # Each of three members says 20.
    autoscaler(ground, "worker", [{"type": "External", "external": metric}], 0, **told)
    until_equal("replicas for the queue", lambda: running(ground, "worker"), {PUSH: 2, PULL: 2})
    sim(ground, "metric", "queue_depth", "--value", "0")
    until_equal("no replicas", lambda: replicas(ground, "worker"), 0)
    until_equal("no pods", lambda: sum(running(ground, "worker").values()), 0)
    until_equal("what it says", lambda: conditions(ground, "worker").get("ScalingActive"), "ValidMetricFound")
    sim(ground, "metric", "queue_depth", "--value", "10")
    until_equal("replicas again", lambda: running(ground, "worker"), {PUSH: 1, PULL: 1})


def test_members_keep_what_their_own_autoscalers_set(ground: Space) -> None:
    name = "own"
    deployment(ground, name, 2)
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": ground.name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [CPU],
        },
    }
    selector = {"apiVersion": hpa["apiVersion"], "kind": hpa["kind"], "name": name}
    ground.apply(hpa)
    ground.apply(propagation("own-hpa", [selector], clusters(PUSH, PULL), ground.name))

    def labels() -> Manifest:
        found: Manifest = (ground.control.get("deployment", name, ground.name) or {})["metadata"].get("labels") or {}
        return found

    until_equal("the mark of the target", lambda: labels().get(RETAIN), "true")
    for member in (PUSH, PULL):
        until(f"the mark in {member}", lambda m=member: _labels(ground.held(m, "deployment", name)).get(RETAIN))
    rows = ground.fleet.table(
        "get", "hpa", name, "-n", ground.name, "--operation-scope", "members", "-C", f"{PUSH},{PULL}"
    )
    assert sorted(row[1] for row in rows[1:]) == [PUSH, PULL]
    # What the autoscalers of the members do.
    for member, count in ((PUSH, "4"), (PULL, "2")):
        ground.member[member].run("scale", "deployment", name, f"--replicas={count}", namespace=ground.name)
    until_equal("the sum of the members", lambda: replicas(ground, name), 6)
    until_equal("what the members set", lambda: running(ground, name), {PUSH: 4, PULL: 2})
    ground.control.delete("hpa", name, ground.name)
    until_equal("no mark", lambda: labels().get(RETAIN), None)
    until_equal("replicas as the policy says", lambda: running(ground, name), {PUSH: 3, PULL: 3})


def test_schedule_scales_a_deployment(ground: Space) -> None:
    until_equal("replicas of the rule", lambda: replicas(ground, "plain"), 5)
    until_equal("all pods", lambda: sum(running(ground, "plain").values()), 5)
    until("an execution", lambda: history(ground, "plain").get("successfulExecutions"))
    found = history(ground, "plain")
    assert found["ruleName"] == "up"
    assert {run["appliedReplicas"] for run in found["successfulExecutions"]} == {5}
    assert all(run["scheduleTime"].endswith(":00Z") for run in found["successfulExecutions"])
    assert found["nextExecutionTime"] > found["successfulExecutions"][0]["scheduleTime"]
    assert "failedExecutions" not in found
    assert "plain" in ground.fleet.said("get", "cronfhpa", "-n", ground.name)


def test_schedule_sets_the_limits_of_an_autoscaler(ground: Space) -> None:
    until_equal("replicas of the limit", lambda: replicas(ground, "limited"), 5)
    assert (ground.control.get("fhpa", "limited", ground.name) or {})["spec"]["minReplicas"] == 5
    until("an execution", lambda: history(ground, "limited").get("successfulExecutions"))
    assert {run.get("appliedMinReplicas") for run in history(ground, "limited")["successfulExecutions"]} == {5}
    until_equal("all pods", lambda: sum(running(ground, "limited").values()), 5)


def history(space: Space, name: str) -> Manifest:
    """The history of the one rule of a schedule."""
    status = (space.control.get("cronfhpa", name, space.name) or {}).get("status") or {}
    histories: list[Any] = status.get("executionHistories") or [{}]
    (found,) = histories
    return dict(found)


def _labels(manifest: Manifest | None) -> Manifest:
    return dict(((manifest or {}).get("metadata") or {}).get("labels") or {})


def _pods(space: Space, member: str) -> list[Manifest]:
    return space.member[member].items("pods", space.name, "app=api")

"""PriorityClasses and RuntimeClasses over HTTP: what new pods get from them, and what is refused."""

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def box(**scheduling: Any) -> dict[str, Any]:
    """A RuntimeClass that costs one CPU."""
    overhead = {"podFixed": {"cpu": "1"}}
    return {"metadata": {"name": "box"}, "handler": "h", "overhead": overhead, "scheduling": scheduling}


async def test_a_pod_gets_the_priority_of_its_class(client: Any) -> None:
    body = {"metadata": {"name": "low"}, "value": 7, "preemptionPolicy": "Never"}
    assert (await client("POST", PRIORITIES, body))[0] == 201
    _, plain = await client("POST", PODS, pod("plain"))
    assert (plain["spec"]["priority"], plain["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    _, low = await client("POST", PODS, pod("low", priorityClassName="low"))
    assert (low["spec"]["priority"], low["spec"]["preemptionPolicy"]) == (7, "Never")
    _, high = await client("POST", PODS, pod("high", priorityClassName="system-node-critical"))
    assert high["spec"]["priority"] == 2_000_001_000


async def test_there_is_one_default_priority_and_pods_get_it(client: Any) -> None:
    body = {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True}
    assert (await client("POST", PRIORITIES, body))[0] == 201
    code, answer = await client("POST", PRIORITIES, {**body, "metadata": {"name": "other"}})
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert "PriorityClass usual is already marked as default" in answer["message"]
    _, made = await client("POST", PODS, pod())
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("usual", 3)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtimeClassName": "box", "overhead": {"cpu": "2"}}, "Pod's Overhead doesn't match RuntimeClass's"),
        ({"runtimeClassName": "box", "nodeSelector": {"box": "no"}}, "conflict: runtimeClass.Scheduling.NodeSelector"),
    ],
)
async def test_object_that_no_class_allows_is_refused(client: Any, spec: dict[str, Any], text: str) -> None:
    assert (await client("POST", RUNTIMES, box(nodeSelector={"box": "yes"})))[0] == 201
    code, answer = await client("POST", PODS, pod(**spec))
    assert code == 403
    assert text in answer["message"]


async def test_a_pod_runs_as_its_runtime_class_says(client: Any) -> None:
    toleration = {"key": "box", "operator": "Exists"}
    made = box(nodeSelector={"box": "yes"}, tolerations=[toleration])
    assert (await client("POST", RUNTIMES, made))[0] == 201
    _, made = await client("POST", PODS, pod(runtimeClassName="box", nodeSelector={"a": "b"}))
    spec = made["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "1"}, {"a": "b", "box": "yes"})
    assert toleration in spec["tolerations"]

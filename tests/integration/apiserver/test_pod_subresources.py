"""What changes a pod beside its own path: containers to look into it, and the sizes of its containers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.core_objects import MERGE

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
SMALL = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}}


@pytest.fixture
async def pods(client: Any) -> Any:
    """The client, after a pod `p` was made."""
    container = {"name": "c", "image": "i", "resources": SMALL}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    code, made = await client("POST", PODS, body)
    assert code == 201, made
    return client


def looking(name: str, image: str = "busybox", **more: Any) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [{"name": name, "image": image, **more}]}}


async def test_containers_to_look_into_a_pod_are_added(pods: Any) -> None:
    for name in ("first", "second"):
        code, found = await pods("PATCH", f"{PODS}/p/ephemeralcontainers", looking(name), media=STRATEGIC)
        assert code == 200, found
    assert {one["name"] for one in found["spec"]["ephemeralContainers"]} == {"first", "second"}
    assert found["metadata"]["generation"] == 3
    code, read = await pods("GET", f"{PODS}/p/ephemeralcontainers")
    assert (code, read["spec"]) == (200, found["spec"])


async def test_nothing_else_of_a_pod_changes_with_them(pods: Any) -> None:
    body = looking("first") | {"metadata": {"labels": {"a": "b"}}}
    body["spec"] |= {"activeDeadlineSeconds": 5}
    code, found = await pods("PATCH", f"{PODS}/p/ephemeralcontainers", body, media=STRATEGIC)
    assert code == 200
    assert "labels" not in found["metadata"]
    assert "activeDeadlineSeconds" not in found["spec"]


@pytest.mark.parametrize(
    ("media", "change", "text"),
    [
        (STRATEGIC, looking("first", "other"), 'existing ephemeral containers "first" may not be changed'),
        (MERGE, looking("second"), 'existing ephemeral containers "first" may not be removed'),
        (STRATEGIC, looking("c"), 'Duplicate value: "c"'),
        (STRATEGIC, looking("x", targetContainerName="none"), 'Not found: "none"'),
    ],
)
async def test_containers_that_are_there_stay(pods: Any, media: str, change: dict[str, Any], text: str) -> None:
    assert (await pods("PATCH", f"{PODS}/p/ephemeralcontainers", looking("first"), media=STRATEGIC))[0] == 200
    code, found = await pods("PATCH", f"{PODS}/p/ephemeralcontainers", change, media=media)
    assert code == 422
    assert text in found["message"]


async def test_they_are_not_added_through_the_pod_itself(pods: Any) -> None:
    code, found = await pods("PATCH", f"{PODS}/p", looking("first"), media=STRATEGIC)
    assert (code, found["reason"]) == (422, "Invalid")


def sized(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


async def test_sizes_of_containers_change(pods: Any) -> None:
    change = sized(requests={"cpu": "200m"}, limits={"memory": "2Gi"})
    change["spec"]["containers"][0]["image"] = "other"
    code, found = await pods("PATCH", f"{PODS}/p/resize", change, media=STRATEGIC)
    assert code == 200, found
    container = found["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "200m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }
    assert container["image"] == "i"
    assert found["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            sized(requests={"memory": None}),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot",
        ),
        (sized(limits={"cpu": None}), "spec.containers[0].resources.limits: Forbidden: resource limits cannot be"),
        (sized(limits={"a.b/c": "1"}, requests={"a.b/c": "1"}), "spec: Forbidden: only cpu and memory resources are"),
        (
            sized(requests={"cpu": "1"}, limits={"memory": "1Gi"}),
            'spec: Invalid value: "Guaranteed": Pod QOS Class may not change',
        ),
        (sized(requests={"cpu": "2"}), "must be less than or equal to cpu limit"),
    ],
)
async def test_sizes_that_a_pod_cannot_have(pods: Any, change: dict[str, Any], text: str) -> None:
    code, found = await pods("PATCH", f"{PODS}/p/resize", change, media=STRATEGIC)
    assert code == 422
    assert text in found["message"]


@pytest.mark.parametrize("name", ["ephemeralcontainers", "resize"])
async def test_static_pods_are_left_alone(client: Any, name: str) -> None:
    meta = {"name": "s", "annotations": {"kubernetes.io/config.mirror": "x"}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": SMALL}]}
    assert (await client("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}))[0] == 201
    change = looking("x") if name == "ephemeralcontainers" else sized(requests={"cpu": "200m"})
    code, found = await client("PATCH", f"{PODS}/s/{name}", change, media=STRATEGIC)
    assert code == 422
    assert "static pods" in found["message"]

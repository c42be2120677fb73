"""Kinds of other projects go the whole way with the scripts that come with the product, in processes of their own.

From the template to its status: replicas are read and divided, set per member, the members' objects are reflected and
judged, and their statuses summed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec import Raw

from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._kit.interpretation.interpreter_levels import Interpreters
from services._rules.interpreter import Operation
from services._rules.scheduling.division.weights import divide

NOW = "2026-01-01T10:00:00Z"
POD: Manifest = {"containers": [{"name": "a", "image": "a:1", "resources": {"requests": {"cpu": "500m"}}}]}
CLONE_SET: Manifest = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "CloneSet",
    "metadata": {"name": "web", "namespace": "shop", "generation": 3},
    "spec": {"replicas": 6, "selector": {}, "template": {"spec": POD}},
}
RAY_SERVICE: Manifest = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "serve", "namespace": "ml", "generation": 3},
    "spec": {
        "rayClusterConfig": {
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}},
            "workerGroupSpecs": [
                {"groupName": "small", "replicas": 6, "template": {"spec": POD}},
                {"groupName": "large", "replicas": 3, "template": {"spec": POD}},
            ],
        }
    },
}
SPARK: Manifest = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "pi", "namespace": "data"},
    "spec": {"type": "Scala", "driver": {"memory": "1g"}, "executor": {"instances": 2, "memory": "1g"}},
}


@pytest.fixture
async def interpreters() -> AsyncIterator[Interpreters]:
    made = Interpreters()
    yield made
    await made.close()


async def _divided(interpreters: Interpreters, template: Manifest) -> dict[str, Manifest]:
    """What each member gets: two thirds of the replicas for m1, the others for m2."""
    replicas, requirements = await interpreters.interpret(Operation.REPLICA, template)
    assert requirements == {"resourceRequest": {"cpu": "500m"}}
    shares = divide(replicas, [("m1", 2), ("m2", 1)], False)
    assert sum(share for _, share in shares) == replicas
    return {cluster: await interpreters.interpret(Operation.REVISE, template, share) for cluster, share in shares}


async def _reported(interpreters: Interpreters, live: dict[str, Manifest]) -> list[Manifest]:
    """What the members report about their objects."""
    return [
        {
            "clusterName": cluster,
            "applied": True,
            "status": await interpreters.interpret(Operation.STATUS, found),
            "health": "Healthy" if await interpreters.interpret(Operation.HEALTH, found) else "Unhealthy",
        }
        for cluster, found in live.items()
    ]


async def test_a_clone_set_goes_to_members_and_its_status_comes_back(interpreters: Interpreters) -> None:
    sent = await _divided(interpreters, CLONE_SET)
    assert {cluster: obj["spec"] for cluster, obj in sent.items()} == {
        "m1": {**CLONE_SET["spec"], "replicas": 4},
        "m2": {**CLONE_SET["spec"], "replicas": 2},
    }

    live = {
        cluster: {
            **obj,
            "metadata": {
                **obj["metadata"],
                "generation": 7,
                "annotations": {"resourcetemplate.karmada.io/generation": "3"},
            },
            "status": {
                "observedGeneration": 7,
                **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), obj["spec"]["replicas"]),
                "availableReplicas": obj["spec"]["replicas"] - (cluster == "m2"),
            },
        }
        for cluster, obj in sent.items()
    }
    items = await _reported(interpreters, live)
    assert [item["health"] for item in items] == ["Healthy", "Unhealthy"]

    summed = await interpreters.interpret(Operation.AGGREGATE, CLONE_SET, items, NOW)
    status = summed["status"]
    assert (status["replicas"], status["availableReplicas"], status["observedGeneration"]) == (6, 5, 3)


async def test_a_ray_service_goes_to_members_and_its_status_comes_back(interpreters: Interpreters) -> None:
    assert (await interpreters.interpret(Operation.REPLICA, RAY_SERVICE))[0] == 10
    sent = await _divided(interpreters, RAY_SERVICE)
    workers = {
        cluster: [group["replicas"] for group in obj["spec"]["rayClusterConfig"]["workerGroupSpecs"]]
        for cluster, obj in sent.items()
    }
    assert workers == {"m1": [4, 2], "m2": [1, 1]}
    # What Lua could not tell apart is as it was.
    head = sent["m1"]["spec"]["rayClusterConfig"]["headGroupSpec"]
    assert head == RAY_SERVICE["spec"]["rayClusterConfig"]["headGroupSpec"]

    ready = {"type": "Ready", "status": "True", "message": "serving"}
    live = {
        "m1": {**sent["m1"], "status": {"serviceStatus": "Running", "numServeEndpoints": 4, "conditions": [ready]}},
        "m2": {**sent["m2"], "status": {"numServeEndpoints": 0, "conditions": [{**ready, "status": "False"}]}},
    }
    items = await _reported(interpreters, live)
    assert [item["health"] for item in items] == ["Healthy", "Unhealthy"]

    summed = await interpreters.interpret(Operation.AGGREGATE, RAY_SERVICE, items, NOW)
    assert summed["status"] == {
        "numServeEndpoints": 4,
        "conditions": [ready, {**ready, "status": "False"}],
    }


async def test_a_spark_application_has_components_and_no_replicas(interpreters: Interpreters) -> None:
    target = SPARK["apiVersion"], SPARK["kind"]
    offered = {Operation.COMPONENT: True, Operation.AGGREGATE: True}
    for operation in (
        Operation.COMPONENT,
        Operation.AGGREGATE,
        Operation.REPLICA,
        Operation.REVISE,
        Operation.RETAIN,
    ):
        assert interpreters.hook_enabled(*target, operation) is offered.get(operation, False)
    components = await interpreters.interpret(Operation.COMPONENT, SPARK)
    assert [(part["name"], part["replicas"]) for part in components] == [("driver", 1), ("executor", 2)]


async def test_customization_precedes_shipped_scripts(interpreters: Interpreters) -> None:
    key = PolicyKey("ResourceInterpreterCustomization", "", "own")
    script = "function GetReplicas(obj) return 42 end"
    target = {"apiVersion": RAY_SERVICE["apiVersion"], "kind": RAY_SERVICE["kind"]}
    manifest = {
        "metadata": {"name": "own"},
        "spec": {"target": target, "customizations": {"replicaResource": {"luaScript": script}}},
    }
    touched = interpreters.take(PolicyChanged(key=key, uid="u", manifest=Raw(msgspec.json.encode(manifest))))
    assert touched == {("ray.io/v1", "RayService")}
    assert await interpreters.interpret(Operation.REPLICA, RAY_SERVICE) == (42, None)
    revised = await interpreters.interpret(Operation.REVISE, RAY_SERVICE, 2)
    groups = revised["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert [group["replicas"] for group in groups] == [0, 1]

    interpreters.take(PolicyDeleted(key=key, uid="u"))
    assert (await interpreters.interpret(Operation.REPLICA, RAY_SERVICE))[0] == 10


async def test_kinds_without_scripts_or_rules_have_no_operations(interpreters: Interpreters) -> None:
    for operation in (
        Operation.REPLICA,
        Operation.COMPONENT,
        Operation.REVISE,
        Operation.AGGREGATE,
        Operation.DEPENDENCY,
    ):
        assert not interpreters.hook_enabled("ray.io/v1alpha1", "RayService", operation)

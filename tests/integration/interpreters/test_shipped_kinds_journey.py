"""A kind of another project goes the whole way with the script that comes with the product, in a process of its own.

From the template to its status: replicas are read and divided, set per member, the members' objects are reflected and
judged, and their statuses summed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from schemas.manifest import Manifest
from services._kit.interpretation.interpreter_levels import Interpreters
from services._rules.interpreter import Operation
from services._rules.scheduling.division.weights import divide

POD: Manifest = {"containers": [{"name": "a", "image": "a:1", "resources": {"requests": {"cpu": "500m"}}}]}
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

    summed = await interpreters.interpret(Operation.AGGREGATE, RAY_SERVICE, items, "2026-01-01T10:00:00Z")
    assert summed["status"] == {
        "numServeEndpoints": 4,
        "conditions": [ready, {**ready, "status": "False"}],
    }

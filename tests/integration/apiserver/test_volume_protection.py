"""Claims, volumes and VolumeAttributesClasses outlive their deletion while they are in use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.apiserver.controllers.volume_protection import claims_of
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings, from_environment
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.core_objects import MERGE, until_gone

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
BOUND = {"status": {"phase": "Bound"}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    settings = Settings(data_dir=tmp_path, tokens=tokens, tls=False, admission=False, protect_volumes=True)
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


def claim(name: str, **spec: Any) -> dict[str, Any]:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": size}


def pod(name: str, claim_name: str) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def deleted(client: Any, path: str) -> dict[str, Any]:
    """Delete an object, and return what is left of it."""
    assert (await client("DELETE", path))[0] == 200
    code, found = await client("GET", path)
    assert code == 200
    assert found["metadata"]["deletionTimestamp"]
    return dict(found)


async def test_a_claim_goes_with_the_last_pod_that_mounts_it(client: Any) -> None:
    code, made = await client("POST", CLAIMS, claim("data"))
    assert (code, made["metadata"]["finalizers"]) == (201, ["kubernetes.io/pvc-protection"])
    for name in ("one", "two"):
        assert (await client("POST", PODS, pod(name, "data")))[0] == 201
    await client("POST", CLAIMS, claim("free"))
    await deleted(client, f"{CLAIMS}/data")
    assert (await client("DELETE", f"{PODS}/one?gracePeriodSeconds=0"))[0] == 200
    await client("DELETE", f"{CLAIMS}/free")
    await until_gone(client, f"{CLAIMS}/free")
    # What was deleted later is gone: the other one has been looked at.
    assert (await client("GET", f"{CLAIMS}/data"))[0] == 200
    assert (await client("DELETE", f"{PODS}/two?gracePeriodSeconds=0"))[0] == 200
    await until_gone(client, f"{CLAIMS}/data")


async def test_a_volume_goes_once_it_is_not_bound(client: Any) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}
    code, made = await client("POST", VOLUMES, body)
    assert (code, made["metadata"]["finalizers"]) == (201, ["kubernetes.io/pv-protection"])
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": made["metadata"]["creationTimestamp"]}
    code, bound = await client("PATCH", f"{VOLUMES}/v/status", BOUND, media=MERGE)
    assert (code, bound["status"]["phase"]) == (200, "Bound")
    assert bound["status"]["lastPhaseTransitionTime"] >= made["status"]["lastPhaseTransitionTime"]
    await deleted(client, f"{VOLUMES}/v")
    assert (await client("PATCH", f"{VOLUMES}/v/status", {"status": {"phase": "Released"}}, media=MERGE))[0] == 200
    await until_gone(client, f"{VOLUMES}/v")


async def test_a_class_goes_with_the_last_claim_that_names_it(client: Any) -> None:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "fast"}}
    code, made = await client("POST", CLASSES, {**body, "driverName": "d", "parameters": {"a": "b"}})
    assert (code, made["metadata"]["finalizers"]) == (201, ["kubernetes.io/vac-protection"])
    assert (await client("POST", CLAIMS, claim("data", volumeAttributesClassName="fast")))[0] == 201
    await deleted(client, f"{CLASSES}/fast")
    await client("DELETE", f"{CLAIMS}/data")
    await until_gone(client, f"{CLASSES}/fast")


@pytest.mark.parametrize(
    ("variables", "protects"),
    [({}, False), ({"CONTROLLERS": "0"}, True), ({"ADMISSION": "0"}, True)],
    ids=["templates", "controllers_elsewhere", "cluster_with_pods"],
)
def test_templates_are_not_protected(variables: dict[str, str], protects: bool) -> None:
    found = from_environment({f"FLEETLOG_APISERVER_{name}": value for name, value in variables.items()})
    assert found.protect_volumes is protects


def test_claims_of_a_pod() -> None:
    made = pod("p", "data")
    made["spec"]["volumes"] += [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "e"}]
    assert claims_of(made) == {"data", "p-scratch"}
    del made["spec"]["nodeName"]
    assert claims_of(made) == set()

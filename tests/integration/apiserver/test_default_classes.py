"""Storage and ingress classes: the default that new objects get, and claims that may grow."""

from typing import Any

import pytest

from tests.integration.apiserver.conftest import Client

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
MERGE = "application/merge-patch+json"


def marked(name: str, mark: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {f"{mark}.kubernetes.io/is-default-class": "true"}}, **fields}


def claim(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": asked}


async def test_claims_without_a_class_get_the_default(client: Client) -> None:
    await client("POST", STORAGE, {"metadata": {"name": "slow"}, "provisioner": "p"})
    assert "storageClassName" not in (await client("POST", CLAIMS, claim("a")))[1]["spec"]
    await client("POST", STORAGE, marked("fast", "storageclass", provisioner="p"))
    assert (await client("POST", CLAIMS, claim("b")))[1]["spec"]["storageClassName"] == "fast"
    assert (await client("POST", CLAIMS, claim("c", storageClassName="")))[1]["spec"]["storageClassName"] == ""
    assert (await client("POST", CLAIMS, claim("d", storageClassName="x")))[1]["spec"]["storageClassName"] == "x"
    beta = {"volume.beta.kubernetes.io/storage-class": "slow"}
    assert "storageClassName" not in (await client("POST", CLAIMS, claim("e", beta)))[1]["spec"]


async def test_ingresses_without_a_class_get_the_default(client: Client) -> None:
    await client("POST", CLASSES, marked("front", "ingressclass", spec={"controller": "a.io/b"}))
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    made = (await client("POST", INGRESSES, {"metadata": {"name": "a"}, "spec": spec}))[1]
    assert made["spec"]["ingressClassName"] == "front"
    old = {"name": "b", "annotations": {"kubernetes.io/ingress.class": "x"}}
    assert "ingressClassName" not in (await client("POST", INGRESSES, {"metadata": old, "spec": spec}))[1]["spec"]


@pytest.mark.parametrize(
    ("grows", "phase", "text"),
    [
        (True, "Bound", ""),
        (False, "Bound", "only dynamically provisioned pvc can be resized"),
    ],
)
async def test_claims_grow_where_their_class_allows_it(client: Client, grows: bool, phase: str, text: str) -> None:
    await client("POST", STORAGE, {"metadata": {"name": "s"}, "provisioner": "p", "allowVolumeExpansion": grows})
    await client("POST", CLAIMS, claim("a", storageClassName="s"))
    await client("PATCH", f"{CLAIMS}/a/status", {"status": {"phase": phase}}, media=MERGE)
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    code, body = await client("PATCH", f"{CLAIMS}/a", more, media=MERGE)
    assert (code, text in body.get("message", "")) == (403 if text else 200, True), body


async def test_system_priority_classes_are_there_to_stay(client: Client) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    found = (await client("GET", path))[1]["items"]
    assert [one["metadata"]["name"] for one in found] == ["system-cluster-critical", "system-node-critical"]
    code, body = await client("DELETE", f"{path}/system-node-critical")
    assert (code, "is a system priority class and cannot be deleted" in body["message"]) == (403, True)

"""What a server adds to the admission of Karmada's kinds: drawn names, patches, what was stored before, namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services._rules import constants as const
from services.apiserver.server import ApiServer
from services.cli.common.waiting import opened
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.support.waiting import comes_to

POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
WIDE = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
MERGE = "application/merge-patch+json"
ID = const.PROPAGATION_POLICY_ID_LABEL


def policy(kind: str = "PropagationPolicy", name: str = "web", **spec: Any) -> dict[str, Any]:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    return {
        "apiVersion": const.POLICY_API,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "placement": {"spreadConstraints": [{"maxGroups": 2}]}, **spec},
    }


def cluster(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "m1"}
    return {
        "apiVersion": const.CLUSTER_API,
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443", **spec},
    }


@pytest.fixture
async def control(server: ApiServer, tmp_path: Path) -> None:
    """The server serves Karmada's kinds."""
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with opened(tmp_path / "kubeconfig") as client:
        await apply_definitions(client, needed_definitions())


async def test_each_policy_has_an_identity_of_its_own(client: Any, control: None) -> None:
    code, made = await client("POST", POLICIES, policy())
    assert code == 201, made
    identity = made["metadata"]["labels"][ID]
    copied = {**policy(name="copy"), "metadata": {"name": "copy", "labels": {ID: identity}}}
    _, copy = await client("POST", POLICIES, copied)
    assert copy["metadata"]["labels"][ID] != identity
    code, changed = await client("PATCH", f"{POLICIES}/web", {"spec": {"priority": 3}}, media=MERGE)
    assert (code, changed["metadata"]["labels"][ID]) == (200, identity)


async def test_a_policy_stored_without_identity_gets_one(client: Any, control: None, server: ApiServer) -> None:
    steps = server.objects.admission.plugins
    server.objects.admission.plugins = []
    _, made = await client("POST", WIDE, policy("ClusterPropagationPolicy"))
    server.objects.admission.plugins = steps
    label = const.CLUSTER_PROPAGATION_POLICY_ID_LABEL
    assert label not in made["metadata"].get("labels", {})
    change = {"metadata": {"labels": {label: "from-the-detector"}}}
    code, written = await client("PATCH", f"{WIDE}/web?dryRun=All", change, media=MERGE)
    assert (code, written["metadata"]["labels"][label]) == (200, "from-the-detector")
    code, written = await client("PATCH", f"{WIDE}/web", {"spec": {"priority": 1}}, media=MERGE)
    assert code == 200
    assert written["metadata"]["labels"][label]


async def test_patched_taints_get_the_time_they_were_added(client: Any, control: None) -> None:
    _, made = await client("POST", CLUSTERS, cluster())
    assert len(made["spec"]["resourceModels"]) == 9
    patch = {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}
    code, new = await client("PATCH", f"{CLUSTERS}/m1", patch, media=MERGE)
    assert (code, bool(new["spec"]["taints"][0].get("timeAdded"))) == (200, True)
    add = [{"op": "add", "path": "/spec/taints/-", "value": {"key": "l", "effect": "NoExecute"}}]
    code, new = await client("PATCH", f"{CLUSTERS}/m1", add, media="application/json-patch+json")
    assert (code, [bool(taint.get("timeAdded")) for taint in new["spec"]["taints"]]) == (200, [True, True])


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "NetworkReady", "status": "False", "reason": "", "message": ""},
        {"type": "NetworkReady", "status": "False", "lastTransitionTime": None},
        {"type": "a b", "status": "Perhaps", "reason": "no word"},
    ],
)
async def test_conditions_of_clusters_are_not_checked(client: Any, control: None, condition: dict[str, Any]) -> None:
    await client("POST", CLUSTERS, cluster())
    status = {"status": {"conditions": [condition]}}
    code, new = await client("PATCH", f"{CLUSTERS}/m1/status", status, media=MERGE)
    assert code == 200, new
    patch = [{"op": "add", "path": "/status/conditions/-", "value": condition}]
    code, new = await client("PATCH", f"{CLUSTERS}/m1/status", patch, media="application/json-patch+json")
    assert (code, len(new["status"]["conditions"])) == (200, 2)
    wrong = {"status": {"conditions": [{"type": 1}]}}
    assert (await client("PATCH", f"{CLUSTERS}/m1/status", wrong, media=MERGE))[0] == 422


@pytest.mark.parametrize("kind", ["cluster", "policy"])
async def test_an_update_may_leave_what_was_wrong_before(
    client: Any, control: None, server: ApiServer, kind: str
) -> None:
    advice = [{"key": "a", "effect": "PreferNoSchedule"}]
    path, body = (CLUSTERS, cluster(taints=advice)) if kind == "cluster" else (POLICIES, policy(preemption="Always"))
    steps = server.objects.admission.plugins
    server.objects.admission.plugins = []
    assert (await client("POST", path, body))[0] == 201
    server.objects.admission.plugins = steps
    path = f"{path}/{body['metadata']['name']}"
    code, answer = await client("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, media=MERGE)
    assert code == 200, answer
    if kind == "cluster":
        ours = {"key": "b", "effect": "NoSchedule"}
        assert (await client("PATCH", path, {"spec": {"taints": [ours, *advice]}}, media=MERGE))[0] == 200
        code, answer = await client("PATCH", path, {"spec": {"apiEndpoint": "a:1"}}, media=MERGE)
        assert (code, len({cause["field"] for cause in answer["details"]["causes"]})) == (422, 1)


async def test_a_namespace_waits_for_the_protected_objects_in_it_only(client: Any) -> None:
    await client("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    path, label = "/api/v1/namespaces/ns/configmaps", const.DELETION_PROTECTED_LABEL

    async def code_of(place: str) -> int:
        code: int = (await client("GET", place))[0]
        return code

    await client("POST", path, {"metadata": {"name": "a-kept", "labels": {label: "Always"}}})
    await client("POST", path, {"metadata": {"name": "b-gone"}})
    await client("DELETE", "/api/v1/namespaces/ns")
    await comes_to("the object without protection", lambda: code_of(f"{path}/b-gone"), 404)
    assert (await client("GET", f"{path}/a-kept"))[0] == 200
    await client("PATCH", f"{path}/a-kept", {"metadata": {"labels": {label: None}}}, media=MERGE)
    await comes_to("the namespace", lambda: code_of("/api/v1/namespaces/ns"), 404)

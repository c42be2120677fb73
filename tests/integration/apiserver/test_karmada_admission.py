"""Karmada's kinds in a control plane: what is filled in, what is refused, and what cannot be deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services._kit.kube.client import KubeClient
from services._rules import constants as const
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.support.waiting import comes_to

POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
WIDE = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SCRIPTS = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
MAPS = "/api/v1/namespaces/default/configmaps"
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


async def define(kubeconfig: Path) -> None:
    """Let the server of a kubeconfig serve Karmada's kinds."""
    opened = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        await apply_definitions(opened, needed_definitions())
    finally:
        await opened.close()


@pytest.fixture
async def control(server: ApiServer, tmp_path: Path) -> None:
    """The server serves Karmada's kinds."""
    server.write_kubeconfig(tmp_path / "kubeconfig")
    await define(tmp_path / "kubeconfig")


@pytest.fixture
async def reachable(tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of a control plane with TLS, which kubectl asks for."""
    made = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path / "tls"))
    await made.start()
    made.write_kubeconfig(tmp_path / "tls.kubeconfig")
    await define(tmp_path / "tls.kubeconfig")
    yield tmp_path / "tls.kubeconfig"
    await made.stop()


async def test_a_valid_policy_gets_its_defaults_identity_and_finalizer(client: Any, control: None) -> None:
    code, made = await client("POST", POLICIES, policy())
    assert code == 201, made
    assert made["spec"]["resourceSelectors"][0]["namespace"] == "default"
    constraint = {"maxGroups": 2, "minGroups": 1, "spreadByField": "cluster"}
    assert made["spec"]["placement"]["spreadConstraints"] == [constraint]
    assert made["metadata"]["finalizers"] == [const.PROPAGATION_POLICY_FINALIZER]
    identity = made["metadata"]["labels"][ID]
    copied = {**policy(name="copy"), "metadata": {"name": "copy", "labels": {ID: identity}}}
    _, copy = await client("POST", POLICIES, copied)
    assert copy["metadata"]["labels"][ID] != identity
    code, changed = await client("PATCH", f"{POLICIES}/web", {"spec": {"priority": 3}}, media=MERGE)
    assert (code, changed["metadata"]["labels"][ID]) == (200, identity)


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        (
            {"placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}},
            "spec.placement",
            "clusterAffinit",
        ),
        ({"preemption": "Always"}, "spec.resourceSelectors[0].name", "must be set"),
        ({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}}, "spec.placement.spread", "cluster"),
    ],
)
async def test_a_refusal_names_field_value_and_remedy(
    client: Any, control: None, spec: dict[str, Any], field: str, text: str
) -> None:
    code, answer = await client("POST", POLICIES, policy(**spec))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].startswith('admission webhook "propagationpolicy.karmada.io" denied the request: ')
    (cause,) = answer["details"]["causes"]
    assert cause["field"].startswith(field)
    assert text in cause["message"]
    assert answer["details"]["name"] == "web"


async def test_what_the_schema_refuses_is_refused_as_the_schema_does(client: Any, control: None) -> None:
    for spec in ({"preemption": "Sometimes"}, {"placement": "x"}):
        code, answer = await client("POST", POLICIES, policy(**spec))
        assert (code, answer["reason"]) == (422, "Invalid")


async def test_the_identity_of_a_policy_is_never_changed(client: Any, control: None) -> None:
    await client("POST", POLICIES, policy())
    for change in ({"labels": {ID: "mine"}}, {"labels": {ID: None}}):
        code, answer = await client("PATCH", f"{POLICIES}/web", {"metadata": change}, media=MERGE)
        assert code == 403
        assert ID in answer["message"]


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


async def test_a_deleted_policy_stays_until_its_finalizer_is_removed(client: Any, control: None) -> None:
    await client("POST", POLICIES, policy())
    code, left = await client("DELETE", f"{POLICIES}/web")
    assert (code, bool(left["metadata"]["deletionTimestamp"])) == (200, True)
    assert (await client("PATCH", f"{POLICIES}/web", {"metadata": {"finalizers": None}}, media=MERGE))[0] == 200
    assert (await client("GET", f"{POLICIES}/web"))[0] == 404


async def test_a_cluster_is_defaulted_and_refused_as_by_its_own_server(client: Any, control: None) -> None:
    taints = [{"key": "a", "effect": "NoExecute"}]
    code, made = await client("POST", CLUSTERS, cluster(zone="z", taints=taints))
    assert code == 201, made
    assert made["spec"]["zones"] == ["z"]
    assert made["spec"]["taints"][0]["timeAdded"]
    assert len(made["spec"]["resourceModels"]) == 9
    code, answer = await client("PATCH", f"{CLUSTERS}/m1", {"spec": {"apiEndpoint": "10.0.0.1:6443"}}, media=MERGE)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"] == "spec.apiEndpoint"
    ready = {"status": {"conditions": [condition("Ready")]}}
    code, written = await client("PATCH", f"{CLUSTERS}/m1/status", ready, media=MERGE)
    assert (code, written["status"]["conditions"][0]["type"]) == (200, "Ready")


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


def condition(name: str) -> dict[str, str]:
    at = "2026-11-01T00:00:00Z"
    return {"type": name, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": at}


async def test_customizations_of_one_kind_must_not_overlap(client: Any, control: None) -> None:
    def script(name: str) -> dict[str, Any]:
        rule = {"luaScript": "function GetReplicas(desiredObj)\n  return 1\nend"}
        target = {"apiVersion": "example.com/v1", "kind": "Widget"}
        spec = {"target": target, "customizations": {"replicaResource": rule}}
        api = "config.karmada.io/v1alpha1"
        return {
            "apiVersion": api,
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": name},
            "spec": spec,
        }

    assert (await client("POST", SCRIPTS, script("one")))[0] == 201
    code, answer = await client("POST", SCRIPTS, script("two"))
    assert code == 403
    assert "one already customizes InterpretReplica" in answer["message"]


async def test_a_protected_object_cannot_be_deleted(client: Any) -> None:
    label = const.DELETION_PROTECTED_LABEL
    body = {"metadata": {"name": "kept", "labels": {label: "Always"}}}
    assert (await client("POST", MAPS, body))[0] == 201
    for path in (f"{MAPS}/kept", MAPS):
        code, answer = await client("DELETE", path)
        assert (code, answer["reason"]) == (403, "Forbidden")
        assert 'webhook "resourcedeletionprotection.karmada.io" denied the request: ' in answer["message"]
        assert label in answer["message"]
    assert (await client("PATCH", f"{MAPS}/kept", {"metadata": {"labels": {label: None}}}, media=MERGE))[0] == 200
    assert (await client("DELETE", f"{MAPS}/kept"))[0] == 200


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


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
async def test_kubectl_shows_the_refusal_and_applies_again(reachable: Path, tmp_path: Path) -> None:
    async def kubectl(*words: str, body: Any = None) -> tuple[int, str]:
        file = tmp_path / "manifest.json"
        file.write_bytes(msgspec.json.encode(body))
        run = await asyncio.create_subprocess_exec(
            *("kubectl", "--kubeconfig", str(reachable), *words, *(("-f", str(file)) if body is not None else ())),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        text, _ = await run.communicate()
        return run.returncode or 0, text.decode()

    code, text = await kubectl("apply", body=policy(preemption="Always"))
    assert code == 1
    assert 'admission webhook "propagationpolicy.karmada.io" denied the request: spec.resourceSelectors[0].name' in text
    for _ in range(2):
        code, text = await kubectl("apply", body=policy())
        assert code == 0, text
    code, text = await kubectl("apply", "--server-side", "--force-conflicts", body=policy(priority=2))
    assert code == 0, text
    code, text = await kubectl("get", "pp", "web", "-o", "json")
    assert msgspec.json.decode(text)["metadata"]["labels"][ID]

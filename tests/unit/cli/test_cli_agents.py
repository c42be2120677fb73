"""What an agent has in the member that it is deployed into, and that it finds all of it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from services._kit.base.settings import load
from services.agent.settings import AgentSettings
from services.cli.hosting.rolling_out import path_of
from services.cli.registration.agent_manifests import AgentPlan, agent_objects, agent_places

PLAN = AgentPlan(cluster="m3", namespace="fleet", url="tls://nats:4222", identity="SEED", signed=True, replicas=2)


def found(plan: AgentPlan = PLAN) -> dict[str, dict[str, Any]]:
    """The objects of an agent by kind."""
    return {item["kind"]: item for item in agent_objects(plan)}


def test_everything_that_is_deployed_is_removed_again() -> None:
    made = {
        path_of(item["kind"], item["apiVersion"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in agent_objects(PLAN)
        if item["kind"] != "Namespace"
    }
    assert made == {path_of(kind, version, place, name) for kind, version, place, name in agent_places("fleet")}


@pytest.mark.parametrize("signed", [True, False])
def test_agent_starts_with_what_it_is_given(signed: bool) -> None:
    plan = msgspec.structs.replace(PLAN, signed=signed)
    pod = found(plan)["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    settings = load(AgentSettings, {one["name"]: one["value"] for one in container["env"]})
    assert settings.agent_cluster == "m3"
    keys = set(found(plan)["Secret"]["stringData"])
    mounted = {path["mountPath"]: path["name"] for path in container["volumeMounts"]}
    for path in (settings.agent_kubeconfig, settings.nats_creds if signed else settings.nats_nkey_file):
        directory, _, file = path.rpartition("/")
        assert mounted[directory] == "identity"
        assert file in keys
    assert pod["serviceAccountName"] == found(plan)["ServiceAccount"]["metadata"]["name"]


def test_kubeconfig_of_an_agent_holds_no_secret() -> None:
    text = found()["Secret"]["stringData"]["kubeconfig"]
    kubeconfig = msgspec.json.decode(text)
    assert kubeconfig["users"][0]["user"] == {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}
    assert re.fullmatch(
        r"[a-z.]+:\d+\.\d+\.\d+", found()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"]
    )

"""What an agent has in the member that it is deployed into, and that it finds all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services._kit.base.settings import load
from services.agent.app import Agent
from services.agent.settings import AgentSettings
from services.cli.common.running import Failed
from services.cli.hosting import rolling_out
from services.cli.hosting.rolling_out import path_of
from services.cli.registration.agent_manifests import AgentPlan, agent_objects, agent_places

PLAN = AgentPlan(cluster="m3", namespace="fleet", url="tls://nats:4222", identity="SEED", signed=True, replicas=2)


def found(plan: AgentPlan = PLAN) -> dict[str, dict[str, Any]]:
    """The objects of an agent by kind."""
    return {item["kind"]: item for item in agent_objects(plan)}


class _Host:
    """A cluster whose one pod runs, is not ready and has this log."""

    def __init__(self, log: str) -> None:
        self._log = log

    async def get(self, path: str) -> Any:
        if "/deployments/" in path:
            return {"metadata": {}, "spec": {}, "status": {}}
        return {"items": [{"metadata": {"name": "agent-0"}, "status": {"phase": "Running"}}]}

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        assert (method, path) == ("GET", "/api/v1/namespaces/fleet/pods/agent-0/log")
        return self._log.encode()


async def test_an_agent_that_does_not_get_ready_is_told_by_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    monkeypatch.setattr(rolling_out, "_TELLS_AFTER", 0.0)
    monkeypatch.setattr(rolling_out, "_TELLS_EVERY", 0.0)
    monkeypatch.setattr(rolling_out, "complain", complaints.append)
    log = (
        '{"event":"hub_unreachable","level":"warning","reason":"CERTIFICATE_VERIFY_FAILED"}\n'
        '{"event":"listening","level":"info"}\nno JSON'
    )
    with pytest.raises(Failed, match="hub_unreachable: CERTIFICATE_VERIFY_FAILED"):
        await rolling_out.until_ready(_Host(log), "Deployment", "fleet", "agent", 1.0)  # type: ignore[arg-type]
    assert complaints == ["agent is not ready yet (hub_unreachable: CERTIFICATE_VERIFY_FAILED)"]


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


def test_an_agent_has_entered_once_it_reached_the_hub(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    settings = AgentSettings(
        agent_cluster="m3", agent_kubeconfig=str(kubeconfig), nats_url="nats://nats.example:4222", agent_data_dir="d"
    )
    agent = Agent(settings)
    agent._checks()
    assert str(agent.health.reason("entered")).startswith("the hub was never reached: not connected")
    agent.link._regained()
    agent.link._lost()
    assert agent.health.reason("hub") == "the connection to the hub was lost"
    assert agent.health.reason("entered") == ""

"""What a simulated member keeps when its process ends: everything, when its objects are on JetStream."""

import json
from typing import Any

from tests.natsserver import Server


def versions(found: dict[str, Any]) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found["items"]}


async def test_member_goes_on_where_it_was_without_writing(
    run_member_with: Any, nats_server: Server, web: Any, tmp_path: Any
) -> None:
    kinds = "nodes,namespaces,deployments,replicasets,pods"
    async with run_member_with(nats_url=nats_server.url, port=0) as member:
        await member.create(web(3))
        await member.until(lambda f: f["status"].get("availableReplicas") == 3, "deployment", "web")
        token = member.running.token
        # The last status of the ReplicaSet follows that of the Deployment.
        await member.until(lambda f: f["items"][0]["status"].get("readyReplicas") == 3, "replicasets")
        before = versions(await member.get(kinds))
    audit = tmp_path / "audit.jsonl"
    async with run_member_with(nats_url=nats_server.url, audit_log=audit) as member:
        assert versions(await member.get(kinds)) == before
        assert member.running.token == token
        await member.kubectl("scale", "deployment/web", "--replicas=4")
        await member.until(lambda f: f["status"].get("availableReplicas") == 4, "deployment", "web")
    writes = [json.loads(line) for line in audit.read_text().splitlines()]
    assert writes, "the audit log is empty"
    assert all("changed" in write for write in writes)


async def test_two_members_share_one_server_without_seeing_each_other(
    run_member_with: Any, nats_server: Server, web: Any, tmp_path: Any
) -> None:
    async with (
        run_member_with(nats_url=nats_server.url) as first,
        run_member_with(name="m2", nats_url=nats_server.url, data_dir=tmp_path / "m2") as second,
    ):
        await first.create(web(1))
        await first.until(lambda f: f["status"].get("availableReplicas") == 1, "deployment", "web")
        assert (await second.get("deployments"))["items"] == []
        assert set(versions(await second.get("nodes"))) == {"m2-node-1", "m2-node-2"}


async def test_member_goes_on_after_its_log_was_away(run_member_with: Any, nats_server: Server, web: Any) -> None:
    async with run_member_with(nats_url=nats_server.url, ready_delay=0.3) as member:
        await member.create(web(3))
        nats_server.kill9()
        nats_server.start()
        await member.until(lambda f: f["status"].get("availableReplicas") == 3, "deployment", "web")
        found = await member.get("pods")
        assert len(found["items"]) == 3

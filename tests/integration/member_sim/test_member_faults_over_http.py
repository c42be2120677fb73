"""Faults of a running member, set through its fault port and seen by its clients."""

from typing import Any

import aiohttp
import pytest


async def test_fault_port_refuses_callers_without_the_token(member: Any) -> None:
    code, body = await member.fault("/faults", {"mode": "stop"}, token="wrong")
    assert code == 401
    assert "token" in body["error"]
    assert await member.kubectl("get", "nodes")


@pytest.mark.parametrize("body", [{"mode": "burn"}, {"mode": "refuse", "status": 404}, {"verb": ["get"]}])
async def test_faults_that_do_not_exist_are_refused(member: Any, body: Any) -> None:
    code, answer = await member.fault("/faults", body)
    assert code == 400
    assert "cannot be used" in answer["error"]


async def test_stopped_member_refuses_connections_and_goes_on_inside(member: Any, web: Any) -> None:
    await member.create(web(2))
    assert (await member.fault("/faults", {"mode": "stop"}))[0] == 200
    assert "refused" in await member.kubectl("get", "pods", fails=True)
    assert (await member.fault("/faults", {"mode": "none"}))[0] == 200
    await member.until(lambda f: f["status"].get("availableReplicas") == 2, "deployment", "web")


async def test_refusing_member_answers_with_the_given_status(member: Any) -> None:
    await member.fault("/faults", {"mode": "refuse", "status": 503, "verbs": ["create"]})
    error = await member.kubectl("create", "configmap", "x", fails=True)
    assert "refuses the request with 503" in error
    assert await member.kubectl("get", "nodes")
    await member.fault("/faults", {"mode": "none"})
    await member.kubectl("create", "configmap", "x")


async def test_slow_member_answers_late(member: Any) -> None:
    await member.fault("/faults", {"mode": "slow", "delayMs": 1500, "verbs": ["list"]})
    error = await member.kubectl("get", "nodes", "--request-timeout=700ms", fails=True)
    assert "imeout" in error or "deadline" in error
    await member.fault("/faults", {"mode": "none"})
    assert await member.kubectl("get", "nodes", "--request-timeout=60s")


async def test_crashing_pods_and_stopped_nodes(member: Any, web: Any) -> None:
    await member.create(web(2))
    await member.until(lambda f: f["status"].get("availableReplicas") == 2, "deployment", "web")
    target = {"namespace": "default", "kind": "Deployment", "name": "web"}
    code, answer = await member.fault("/faults/pods", {**target, "crash": True})
    assert (code, answer["crashing"]) == (200, ["Deployment/default/web"])
    await member.until(lambda f: f["status"].get("unavailableReplicas") == 2, "deployment", "web")
    states = [pod["status"]["containerStatuses"][0]["state"] for pod in (await member.get("pods"))["items"]]
    assert [state["waiting"]["reason"] for state in states] == ["CrashLoopBackOff"] * 2
    await member.fault("/faults/pods", {**target, "crash": False})
    await member.until(lambda f: f["status"].get("availableReplicas") == 2, "deployment", "web")

    code, answer = await member.fault("/faults/nodes", {"names": ["m1-node-1"]})
    assert (code, answer["nodesNotReady"]) == (200, ["m1-node-1"])
    await member.until(lambda f: f["status"].get("availableReplicas") == 1, "deployment", "web")
    node = await member.get("node", "m1-node-1")
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "Unknown"
    assert (await member.get("node", "m1-node-2"))["status"]["conditions"][-1]["status"] == "True"
    await member.fault("/faults/nodes", {"names": ["m1-node-1"], "ready": True})
    await member.until(lambda f: f["status"].get("availableReplicas") == 2, "deployment", "web")
    assert (await member.fault("/faults/nodes", {"names": ["x"]}))[0] == 404
    assert (await member.fault("/faults/pods", {"namespace": "default", "name": "x"}))[0] == 404


async def test_health_and_counters_need_no_token(member: Any) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{member.running.admin_url}/healthz") as answer:
            assert (answer.status, await answer.json()) == (200, {"ready": True})
        async with session.get(f"{member.running.admin_url}/metrics") as answer:
            assert "fleetlog_member_sim_writes_total" in await answer.text()
        async with session.get(f"{member.running.admin_url}/faults") as answer:
            assert answer.status == 401


async def test_stopped_member_ends_watches_and_shuts_down(run_member_with: Any) -> None:
    async with run_member_with() as member:
        headers = {"Authorization": f"Bearer {member.running.token}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), headers=headers) as session:
            url = f"{member.running.url}/api/v1/namespaces?watch=true"
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=60)) as answer:
                assert await answer.content.readline()
                await member.fault("/faults", {"mode": "stop"})
                try:
                    while await answer.content.readline():
                        pass
                except aiohttp.ClientError:
                    pass
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"{member.running.url}/version")


async def test_too_many_requests_tell_when_to_come_back(member: Any) -> None:
    await member.fault("/faults", {"mode": "refuse", "status": 429})
    headers = {"Authorization": f"Bearer {member.running.token}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), headers=headers) as session,
        session.get(f"{member.running.url}/api/v1/pods") as answer,
    ):
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert (await answer.json())["reason"] == "TooManyRequests"

"""Simulated containers entered with the kubectl on PATH: logs, exec, attach, port-forward and top."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import pytest

from tests.integration.member_sim.conftest import Member
from tests.support.waiting import eventually


async def placed(member: Member, web: Any, **settings: Any) -> str:
    """The name of a running pod of a Deployment."""
    manifest = web(replicas=1, image="nginx:1.27", **settings)
    manifest["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    manifest["spec"]["template"]["metadata"]["annotations"] = {
        "fleetlog.io/simulated-log-lines-per-second": "50",
    }
    await member.create(manifest)
    found = await member.until(lambda pods: any(ready(pod) for pod in pods["items"]), "pods")
    return next(str(pod["metadata"]["name"]) for pod in found["items"] if ready(pod))


def ready(pod: dict[str, Any]) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod.get("status", {}).get("conditions", ())
    )


@asynccontextmanager
async def kubectl(member: Member, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A kubectl that runs until the block ends."""
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        "--kubeconfig",
        str(member.running.kubeconfig),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_logs_are_read_cut_and_followed(member: Member, web: Any) -> None:
    name = await placed(member, web)
    assert "listening on 80" in (await eventually(lambda: logs_with(member, name, "listening")))
    last = await member.kubectl("logs", name, "--tail=2", "--timestamps")
    assert len(last.splitlines()) == 2
    assert last[:4].isdigit()
    assert await member.kubectl("logs", name, "--limit-bytes=5") == "start"
    assert await member.kubectl("logs", name, "--since-time=2099-01-01T00:00:00Z") == ""
    async with kubectl(member, "logs", "-f", name, "--tail=0") as process:
        assert process.stdout is not None
        lines = [await process.stdout.readline() for _ in range(5)]
        assert all(b"HTTP/1.1" in line for line in lines)
        await member.kubectl("delete", "deployment", "web", "--wait=false")
        # What is followed ends with the pod.
        await process.stdout.read()
        assert await process.wait() == 0


async def logs_with(member: Member, name: str, word: str) -> str:
    text = await member.kubectl("logs", name)
    return text if word in text else ""


async def test_a_log_that_is_not_there_is_explained(member: Member, web: Any) -> None:
    two = web(replicas=1)
    spec = two["spec"]["template"]["spec"]
    spec["containers"].append({"name": "side", "image": "busybox"})
    spec["initContainers"] = [{"name": "first", "image": "busybox"}]
    await member.create(two)
    found = await member.until(lambda pods: any(ready(pod) for pod in pods["items"]), "pods")
    name = found["items"][0]["metadata"]["name"]
    refused = "--raw", f"/api/v1/namespaces/default/pods/{name}/log"
    text = await member.kubectl("get", *refused, fails=True)
    assert f"a container name must be specified for pod {name}, choose one of: [c side] or one of the init" in text
    text = await member.kubectl("logs", name, "-c", "c", "--previous", fails=True)
    assert f'previous terminated container "c" in pod "{name}" not found' in text
    assert "container none is not valid for pod" in await member.kubectl("logs", name, "-c", "none", fails=True)
    assert "finished" in await member.kubectl("logs", name, "-c", "first")
    assert "run 0" in await member.kubectl("logs", name, "-c", "side")


async def test_a_crashed_container_has_a_previous_log(member: Member, web: Any) -> None:
    name = await placed(member, web)
    await member.fault("/faults/pods", {"namespace": "default", "name": "web"})
    await member.until(lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1, "pod", name)
    last = (await member.kubectl("logs", name, "--previous")).splitlines()[-1]
    assert last == "fatal: the process ends with exit code 1"
    text = await member.kubectl("exec", name, "--", "true", fails=True)
    assert 'container not found ("c")' in text
    await member.fault("/faults/pods", {"namespace": "default", "name": "web", "crash": False})
    await member.until(ready, "pod", name)
    assert (await member.kubectl("logs", name, "--previous")).splitlines()[-1] == last
    assert "run 1" in await member.kubectl("logs", name)


@pytest.mark.parametrize("websockets", ["true", "false"], ids=["websocket", "spdy"])
async def test_commands_run_with_input_output_and_codes(
    member: Member, web: Any, websockets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
    name = await placed(member, web)
    assert await member.kubectl("exec", name, "--", "hostname") == f"{name}\n"
    text = await member.kubectl("exec", name, "--", "sh", "-c", "echo out; nope; exit 3", fails=True)
    assert text == "sh: nope: not found\ncommand terminated with exit code 3\n"
    data = "x" * 1_000_000
    assert await member.kubectl("exec", "-i", name, "--", "cat", stdin=data) == data
    assert await member.kubectl("exec", "-i", name, "--", "sh", stdin="echo $((1\nwc -c\nabc\n") == "4\n"
    async with kubectl(member, "exec", name, "--", "nope") as process:
        assert await process.wait() == 127


@pytest.mark.parametrize("websockets", ["true", "false"], ids=["websocket", "spdy"])
async def test_ports_are_forwarded(member: Member, web: Any, websockets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
    name = await placed(member, web)
    async with kubectl(member, "port-forward", name, ":80") as process, aiohttp.ClientSession() as session:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:")
        url = f"http://127.0.0.1:{line.split(':')[1].split()[0]}"
        body = bytes(range(256)) * 8192

        async def echoed() -> bool:
            async with session.post(f"{url}/echo", data=BytesIO(body)) as answer:
                return await answer.read() == body

        assert all(await asyncio.gather(*(echoed() for _ in range(4))))
        async with session.get(f"{url}/hostname") as answer:
            assert await answer.text() == f"{name}\n"


async def test_a_port_without_listener_is_refused(member: Member, web: Any) -> None:
    name = await placed(member, web)
    async with kubectl(member, "port-forward", name, ":81") as process, aiohttp.ClientSession() as session:
        assert process.stdout is not None
        assert process.stderr is not None
        line = (await process.stdout.readline()).decode()
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{line.split(':')[1].split()[0]}/")
        assert b"nothing listens there: connection refused" in await process.stderr.readline()


async def test_attach_shows_what_is_logged(member: Member, web: Any) -> None:
    name = await placed(member, web)
    async with kubectl(member, "attach", name) as process:
        assert process.stdout is not None
        assert b"HTTP/1.1" in await process.stdout.readline()


async def test_an_attached_shell_ends_with_its_pod(member: Member) -> None:
    words = ("run", "b", "-i", "--restart=Never", "--image=busybox", "--", "sh")
    assert await member.kubectl(*words, stdin="echo in $HOSTNAME\n") == "in b\n"
    await member.until(lambda pod: pod["status"]["phase"] == "Succeeded", "pod", "b")
    words = (*words[:1], "c", *words[2:])
    await member.kubectl(*words, stdin="exit 3\n", fails=True)
    pod = await member.until(lambda pod: pod["status"]["phase"] == "Failed", "pod", "c")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_top_shows_what_was_set(member: Member, web: Any) -> None:
    name = await placed(member, web, cpu="500m")
    code, answer = await member.fault("/load", {"namespace": "default", "name": "web", "cpu": "80%"})
    assert (code, answer[0]["cpu"]) == (200, "80%")
    rows = (await member.kubectl("top", "pods", "-l", "app=web", "--no-headers")).split()
    assert rows[:2] == [name, "400m"]
    assert await member.kubectl("top", "pods", "-l", "app=no") == ""
    total = sum(int(row.split()[1][:-1]) for row in (await member.kubectl("top", "nodes", "--no-headers")).splitlines())
    assert total == 600
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/{name}"
    item = json.loads(await member.kubectl("get", "--raw", path))
    assert item["containers"] == [{"name": "c", "usage": {"cpu": "400000000n", "memory": "16384Ki"}}]
    text = await member.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/none", fails=True)
    assert 'nodes.metrics.k8s.io "none" not found' in text
    assert "metrics.k8s.io/v1beta1" in await member.kubectl("api-versions")

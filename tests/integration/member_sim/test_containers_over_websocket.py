"""Simulated containers over WebSocket and SPDY with other clients than kubectl, and with clients that mean no good."""

import asyncio
import json
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from kubernetes_asyncio import client, config
from kubernetes_asyncio.stream import WsApiClient

from services.member_sim.containers import simulated_containers
from services.member_sim.streams import peer_pings
from services.member_sim.streams.spdy_framing import RST_STREAM, FrameReader
from tests.integration.member_sim.conftest import Member
from tests.support.spdy_client import ClientFrames
from tests.support.waiting import eventually

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]},
}
BASE = "/api/v1/namespaces/default/pods/p"
IN_AND_OUT = "stdin=true&stdout=true&stderr=true"


class Sockets:
    """Opens connections to the one pod of a member."""

    def __init__(self, member: Member, session: aiohttp.ClientSession) -> None:
        self.member, self.session = member, session
        self.headers = {"Authorization": f"Bearer {member.running.token}"}

    def open(self, path: str, *protocols: str, **headers: str) -> Any:
        return self.session.ws_connect(
            f"{self.member.running.url}{BASE}/{path}",
            ssl=False,
            protocols=protocols,
            headers={**self.headers, **headers},
            max_msg_size=0,
        )

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        url = f"{self.member.running.url}{path}"
        async with self.session.request(method, url, ssl=False, headers={**self.headers, **headers}) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def sockets(member: Member) -> AsyncIterator[Sockets]:
    await member.create(POD)
    await member.until(lambda pod: pod.get("status", {}).get("phase") == "Running", "pod", "p")
    async with aiohttp.ClientSession() as session:
        yield Sockets(member, session)


@asynccontextmanager
async def still_served(sockets: Sockets) -> AsyncIterator[None]:
    """A neighbour's connection that goes on during the block and after it."""
    async with sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v5.channel.k8s.io") as neighbour:
        await neighbour.receive_bytes()
        yield
        await neighbour.send_bytes(b"\x00still here")
        assert await neighbour.receive_bytes(timeout=30) == b"\x01still here"


async def until_end(socket: Any) -> tuple[bytes, dict[str, Any]]:
    """What came on standard output, and the status at the end."""
    out, status = bytearray(), {}
    async for message in socket:
        if message.data[:1] == b"\x01":
            out += message.data[1:]
        elif message.data[:1] == b"\x03":
            status = json.loads(message.data[1:])
    return bytes(out), status


async def test_version_5_closes_standard_input(sockets: Sockets) -> None:
    async with sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v4.channel.k8s.io", "v5.channel.k8s.io") as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        await socket.send_bytes(b"\x00abc")
        await socket.send_bytes(b"\xff\x00")
        assert await until_end(socket) == (b"abc", {"metadata": {}, "status": "Success"})


async def test_texts_carry_base64(sockets: Sockets) -> None:
    async with sockets.open("exec?command=hostname&stdout=true", "v4.base64.channel.k8s.io") as socket:
        assert [message.data async for message in socket][:2] == ["1", "1cAo="]


async def test_sizes_of_terminals_arrive(sockets: Sockets) -> None:
    async with sockets.open("exec?command=sh&stdin=true&stdout=true&tty=true", "v4.channel.k8s.io") as socket:
        await socket.send_bytes(b'\x04{"Width":111,"Height":33}')
        await socket.send_bytes(b"\x00stty size; exit 2\r")
        out, status = await until_end(socket)
        assert b"33 111\r\n" in out
        assert status["details"]["causes"][0]["message"] == "2"


async def test_the_client_library_runs_commands(sockets: Sockets) -> None:
    settings = client.Configuration()
    await config.load_kube_config(str(sockets.member.running.kubeconfig), client_configuration=settings)
    async with WsApiClient(settings) as api:
        core = client.CoreV1Api(api)
        words = ["sh", "-c", "echo out; echo err >&2"]
        ask = core.connect_get_namespaced_pod_exec
        found = await ask("p", "default", command=words, stdin=False, stdout=True, stderr=True, tty=False)
        assert sorted(found.split()) == ["err", "out"]


async def test_ports_are_forwarded_over_channels(sockets: Sockets) -> None:
    async with sockets.open("portforward?ports=80,81", "v4.channel.k8s.io") as socket:
        first = [await socket.receive_bytes() for _ in range(4)]
        assert first == [b"\x00P\x00", b"\x01P\x00", b"\x02Q\x00", b"\x03Q\x00"]
        assert b"nothing listens there" in await socket.receive_bytes()
        await socket.send_bytes(b"\x00GET /hostname HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")
        raw = b"".join([message.data[1:] async for message in socket])
        assert raw.endswith(b"\r\n\r\np\n")


async def test_100_megabytes_pass_both_ways(sockets: Sockets) -> None:
    piece, count = bytes(range(256)) * 256, 1600
    sent = most = 0
    async with sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v5.channel.k8s.io") as socket:

        async def send() -> None:
            nonlocal sent
            for _ in range(count):
                await socket.send_bytes(b"\x00" + piece)
                sent += len(piece)
            await socket.send_bytes(b"\xff\x00")

        sending = asyncio.create_task(send())
        size = 0
        async for message in socket:
            if message.data[:1] == b"\x01":
                part = message.data[1:]
                assert part == piece[size % len(piece) :][: len(part)]
                size += len(part)
                most = max(most, sent - size)
        await sending
    assert size == count * len(piece)
    assert most < 40 << 20, "no more is on its way"


@pytest.mark.parametrize(
    ("path", "headers", "code", "words"),
    [
        ("exec?command=ls&stdout=true", {}, 400, "Upgrade request required"),
        ("exec?command=ls", {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("exec?stdout=true", {}, 400, "you must specify a command"),
        ("exec?command=ls&stdout=true&container=x", {}, 400, "container x is not valid for pod p"),
        ("exec?command=ls&stdout=true", {"Upgrade": "h2c", "Connection": "upgrade"}, 400, "unable to upgrade to 'h2c'"),
        (
            "exec?command=ls&stdout=true",
            {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": "v9.channel.k8s.io"},
            400,
            "none of the subprotocols v9.channel.k8s.io is spoken here",
        ),
        ("exec?command=ls&stdout=true", {"Upgrade": "websocket", "Connection": "Upgrade"}, 400, "handshake"),
        ("portforward", {}, 400, "Upgrade request required"),
        ("log?tailLines=-1", {}, 422, "tailLines: Invalid value: -1"),
    ],
)
async def test_what_cannot_be_served_is_refused(
    sockets: Sockets, path: str, headers: dict[str, str], code: int, words: str
) -> None:
    found, text = await sockets.ask("GET", f"{BASE}/{path}", **headers)
    assert (found, words in text) == (code, True), text


@pytest.mark.parametrize(
    "message",
    [b"", b"\x07x", b"\x00" + bytes(5 << 20), b"\xfe", b"\x04{"],
    ids=["empty", "channel", "oversized", "unknown", "size"],
)
async def test_a_hostile_message_ends_its_connection_only(sockets: Sockets, message: bytes) -> None:
    async with still_served(sockets):
        path = f"exec?command=sleep&command=1000&{IN_AND_OUT}&tty=true"
        async with sockets.open(path, "v5.channel.k8s.io") as socket:
            await socket.send_bytes(message)
            async with asyncio.timeout(60):
                assert [m async for m in socket if m.data[:1] == b"\x03"] == []
            assert socket.closed


@pytest.mark.parametrize("raw", [b"\x83\x00", b"\xf2\x80\x00\x00\x00\x00", b"\x82\xff" + b"\x7f" * 8], ids=str)
async def test_wrong_opcodes_end_their_connection_only(sockets: Sockets, raw: bytes) -> None:
    async with still_served(sockets), sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v5.channel.k8s.io") as socket:
        await socket.receive_bytes()
        socket._writer.transport.write(raw)
        async with asyncio.timeout(60):
            async for _ in socket:
                pass
        assert socket.closed


async def test_who_answers_no_ping_is_let_go(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_pings, "PING_SECONDS", 0.2)
    url = f"{sockets.member.running.url}{BASE}/exec?command=cat&{IN_AND_OUT}"
    async with sockets.session.ws_connect(url, ssl=False, headers=sockets.headers, autoping=False) as socket:
        async with asyncio.timeout(60):
            while (await socket.receive()).type not in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
                pass


async def test_who_answers_pings_may_be_silent(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    # Half of that for an answer, which is behind all that the client reads before.
    monkeypatch.setattr(peer_pings, "PING_SECONDS", 1.0)
    path = f"exec?command=sh&command=-c&command=sleep%202;cat&{IN_AND_OUT}"
    async with sockets.open(path, "v5.channel.k8s.io") as socket:
        # More than waits for a process that sleeps: answers to pings are behind it.
        async def send() -> None:
            for _ in range(6):
                await socket.send_bytes(b"\x00" + bytes(500_000))

        sending = asyncio.create_task(send())
        out, size = b"", 0
        while size < 3_000_000:
            out = await socket.receive_bytes(timeout=60)
            size += len(out) - 1
        await sending


async def test_a_client_that_leaves_ends_its_process(sockets: Sockets) -> None:
    async def running() -> str:
        url = f"{sockets.member.running.admin_url}/metrics"
        async with sockets.session.get(url) as answer:
            lines = (await answer.text()).splitlines()
        name = 'fleetlog_member_sim_connections{subresource="exec"}'
        return next((line.split()[-1] for line in lines if line.startswith(name)), "0")

    before = float(await running())
    socket = await sockets.open(f"exec?command=sleep&command=100000&{IN_AND_OUT}", "v4.channel.k8s.io")
    for _ in range(20):
        # More than waits for a process that reads nothing.
        await socket.send_bytes(b"\x00" + bytes(30_000))
    assert float(await running()) == before + 1
    socket._response.connection.transport.abort()

    async def gone() -> bool:
        return float(await running()) == before

    await eventually(gone, "the end of the process")


async def test_a_user_has_so_many_connections(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_containers, "MOST_OF_USER", 1)
    async with sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v4.channel.k8s.io"):
        code, text = await sockets.ask("GET", f"{BASE}/log")
        assert (code, json.loads(text)["reason"]) == (429, "TooManyRequests")


async def test_a_stopped_kubelet_refuses(sockets: Sockets) -> None:
    await sockets.member.fault("/faults/nodes", {})
    code, text = await sockets.ask("GET", f"{BASE}/log")
    assert (code, "connect: connection refused" in text) == (500, True)


async def test_rights_are_those_of_the_subresource(sockets: Sockets) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]
    rules.append({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]})
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**role, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference}
    del binding["rules"]
    await sockets.member.create({**role, "metadata": {"name": "r", "namespace": "default"}})
    await sockets.member.create({**binding, "metadata": {"name": "r", "namespace": "default"}})
    jane = {"Impersonate-User": "jane"}
    path = f"{BASE}/exec?command=ls&stdout=true"

    async def codes() -> list[int]:
        asked = [("POST", path), ("GET", path), ("GET", f"{BASE}/log"), ("GET", f"{BASE}/attach?stdout=true")]
        return [(await sockets.ask(method, where, **jane))[0] for method, where in asked]

    await eventually(lambda: _is(codes, [400, 403, 200, 403]), "the rights of jane")


async def _is(look: Any, wanted: Any) -> bool:
    return bool(await look() == wanted)


async def test_endless_logs_are_never_held(member: Member) -> None:
    annotations = {"fleetlog.io/simulated-log-lines-per-second": "1000000"}
    await member.create({**POD, "metadata": {**POD["metadata"], "annotations": annotations}})
    await member.until(lambda pod: pod.get("status", {}).get("phase") == "Running", "pod", "p")
    tracemalloc.start()
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {member.running.token}"}
        url = f"{member.running.url}{BASE}/log?follow=true"
        async with session.get(url, ssl=False, headers=headers) as answer:
            size = 0
            while size < 5_000_000:
                size += len(await answer.content.readany())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_500_000, most
    assert await member.kubectl("logs", "p", "--tail=1")


async def test_a_member_that_stops_ends_its_connections(sockets: Sockets) -> None:
    async with sockets.open(f"exec?command=cat&{IN_AND_OUT}", "v4.channel.k8s.io") as socket:
        await socket.receive_bytes()
        assert (await sockets.member.fault("/faults", {"mode": "stop"}))[0] == 200
        async with asyncio.timeout(60):
            async for _ in socket:
                pass
        assert socket.closed
    assert (await sockets.member.fault("/faults", {"mode": "none"}))[0] == 200
    assert await sockets.member.kubectl("exec", "p", "--", "echo", "again") == "again\n"


async def test_viewers_may_read_what_is_used(sockets: Sockets) -> None:
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "viewers"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": role,
    }
    path = "/apis/metrics.k8s.io/v1beta1/pods"
    assert (await sockets.ask("GET", path, **{"Impersonate-User": "ann"}))[0] == 403
    await sockets.member.create(binding)

    async def allowed() -> bool:
        return (await sockets.ask("GET", path, **{"Impersonate-User": "ann"}))[0] == 200

    await eventually(allowed, "the right to read metrics")
    for method, where, code in (("GET", f"{path}?watch=true", 405), ("POST", path, 405), ("GET", f"{path}?x=1", 200)):
        assert (await sockets.ask(method, where))[0] == code
    code, text = await sockets.ask("GET", f"{path}?fieldSelector=metadata.name%3Dq")
    assert (code, json.loads(text)["items"]) == (200, [])
    code, text = await sockets.ask("GET", f"{path}?labelSelector=!!")
    assert code == 400


@asynccontextmanager
async def switched(sockets: Sockets, path: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the pod that was switched to SPDY/3.1."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = sockets.member.running.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        lines = [f"POST {BASE}/{path} HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        lines += [f"Authorization: {sockets.headers['Authorization']}", "X-Stream-Protocol-Version: v4.channel.k8s.io"]
        writer.write("\r\n".join([*lines, "Content-Length: 0", "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        assert b"Upgrade: SPDY/3.1\r\n" in head
        yield reader, writer
    finally:
        writer.transport.abort()


async def until_closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(60):
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass


@pytest.mark.parametrize("path", [f"exec?command=cat&{IN_AND_OUT}", "portforward"], ids=["exec", "portforward"])
@pytest.mark.parametrize(
    "raw",
    [b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", ClientFrames.data(1, b"x")[:4] + b"\x00\xff\xff\xff"],
    ids=["bits", "http", "oversized"],
)
async def test_no_spdy_ends_its_connection_only(sockets: Sockets, path: str, raw: bytes) -> None:
    async with still_served(sockets), switched(sockets, path) as (reader, writer):
        writer.write(raw)
        await until_closed(reader)


async def test_who_is_silent_over_spdy_is_let_go(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_pings, "PING_SECONDS", 0.2)
    async with switched(sockets, "portforward") as (reader, _):
        await until_closed(reader)


async def test_a_stream_of_an_unknown_kind_is_refused(sockets: Sockets) -> None:
    client, frames = ClientFrames(), FrameReader()
    async with switched(sockets, "portforward") as (reader, writer):
        for number, headers in ((1, {"streamtype": "x"}), (3, {"streamtype": "data", "port": "0"}), (5, {})):
            writer.write(client.opened(number, headers))
        seen: list[tuple[int, int]] = []
        while len(seen) < 3:
            seen += [(frame.kind, frame.stream) for frame in frames.feed(await reader.read(65536))]
        assert seen == [(RST_STREAM, 1), (RST_STREAM, 3), (RST_STREAM, 5)]

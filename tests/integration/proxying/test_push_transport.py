"""Requests to push members: as whom and where they arrive, and what a hostile member reaches."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from services._kit.proxying.member_directory import ChosenTransport, MemberDirectory
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberUnknown,
    MemberUnreachable,
)
from services._kit.proxying.push_transport import PushTransport
from tests.support.endpoints import answering
from tests.support.raw_member import RawMember, raw_member
from tests.support.waiting import stands_still

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECRETS = "/api/v1/namespaces/karmada-cluster/secrets"


class Plane:
    """The objects of a control plane by path, and how often each was read."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.reads: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.reads.append(request.path)
        found = self.objects.get(request.path)
        if found is None:
            status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"{request.path} not found"}
            return web.json_response(status, status=404)
        return web.json_response(found)

    def member(self, name: str, endpoint: str, token: str = "impersonator", **spec: Any) -> None:
        """Enter a cluster and its impersonator."""
        reference = {"namespace": "karmada-cluster", "name": f"{name}-impersonator"}
        given = {"apiEndpoint": endpoint, "syncMode": "Push", "impersonatorSecretRef": reference, **spec}
        self.objects[f"{CLUSTERS}/{name}"] = {"metadata": {"name": name}, "spec": given}
        self.secret(f"{name}-impersonator", token=token)

    def secret(self, name: str, **data: str) -> None:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.objects[f"{SECRETS}/{name}"] = {"metadata": {"name": name}, "data": encoded}


@pytest.fixture
async def member() -> AsyncIterator[RawMember]:
    async with raw_member() as made:
        yield made


class Ground:
    """A control plane with one push member, and the transport to it."""

    def __init__(self, plane: Plane, directory: MemberDirectory, push: PushTransport) -> None:
        self.plane = plane
        self.directory = directory
        self.push = push
        self.transport = ChosenTransport(directory, push)

    async def open(self, path: str, method: str = "GET", body: Any = None, **fields: Any) -> Exchange:
        given = {"user": "jane", "groups": ("devs", "system:authenticated"), "headers": (), **fields}
        return await self.transport.open(MemberRequest(cluster="m1", method=method, path=path, **given), body)

    async def told(self, path: str, method: str = "GET", body: Any = None, **fields: Any) -> Any:
        """What the member says it was asked."""
        exchange = await self.open(path, method, body, **fields)
        try:
            return json.loads(await whole(exchange))
        finally:
            await exchange.close()


async def whole(exchange: Exchange) -> bytes:
    parts = []
    while data := await exchange.read():
        parts.append(data)
    return b"".join(parts)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.fixture
async def ground(member: RawMember) -> AsyncIterator[Ground]:
    plane = Plane()
    plane.member("m1", member.url)
    async with answering(plane.handle) as control:
        directory = MemberDirectory(control)
        push = PushTransport(directory)
        yield Ground(plane, directory, push)
        await push.close()


async def test_member_sees_the_caller_and_the_impersonator(ground: Ground, member: RawMember) -> None:
    exchange = await ground.open("/api/v1/pods?limit=1", headers=(("Accept", "application/json"),))
    assert exchange.status == 200
    await exchange.close()
    heard = member.heard[-1]
    assert (heard.method, heard.target) == ("GET", "/api/v1/pods?limit=1")
    assert heard.values("Authorization") == ["Bearer impersonator"]
    assert heard.values("Impersonate-User") == ["jane"]
    assert heard.values("Impersonate-Group") == ["devs"]
    assert heard.values("Host") == [f"127.0.0.1:{member.port}"]
    assert heard.values("User-Agent") == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_arrives_with_its_body(ground: Ground, method: str) -> None:
    body = pieces(b"abc", b"def") if method != "GET" else None
    told = await ground.told("/api/v1/x", method, body)
    assert (told["method"], told["size"]) == (method, 0 if body is None else 6)


async def test_length_of_a_body_is_kept(ground: Ground, member: RawMember) -> None:
    await ground.told("/api/v1/x", "POST", pieces(b"abcdef"), headers=(("Content-Length", "6"),))
    assert member.heard[-1].values("Content-Length") == ["6"]
    assert member.heard[-1].values("Transfer-Encoding") == []


async def test_endpoint_with_a_path_is_kept_in_front(ground: Ground, member: RawMember) -> None:
    ground.plane.member("m1", f"{member.url}/k8s/clusters/c-1/")
    assert (await ground.told("/api/v1/pods"))["target"] == "/k8s/clusters/c-1/api/v1/pods"
    with pytest.raises(MemberRefused):
        await ground.open("/../c-2/api")


@pytest.mark.parametrize("upgrade", ["websocket", "SPDY/3.1"])
async def test_switched_connections_carry_bytes_both_ways(ground: Ground, upgrade: str) -> None:
    exchange = await ground.open("/api/v1/namespaces/a/pods/b/exec/switch", "POST", upgrade=upgrade)
    assert exchange.status == 101
    assert await exchange.read() == b"early,"
    sent = received = 0
    for number in range(200):
        part = bytes([number]) * 50_000
        await exchange.write(part)
        sent += len(part)
        while received < sent:
            data = await exchange.read()
            assert set(data) == {number}
            received += len(data)
    await exchange.close()


async def test_writer_waits_for_a_member_that_does_not_read(ground: Ground, member: RawMember) -> None:
    exchange = await ground.open("/switch", upgrade="websocket")

    async def flood() -> None:
        while True:
            await exchange.write(b"x" * 65536)

    # Its echo is not read: in the end no buffer has space, and the writer is held up.
    task = asyncio.create_task(flood())
    assert await stands_still(lambda: member.sent, "the writer is held up") < 64 << 20
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await exchange.close()


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/login", "/login"),
        ("/login?next=/a", "/login?next=/a"),
        ("SELF/ui/", "/ui/"),
        ("http://169.254.169.254/latest", None),
        ("//evil.example/x", None),
        ("/\\evil.example", None),
        ("https://SELFHOST/x", None),
        ("/a/../../x", None),
        ("javascript:alert(1)", None),
    ],
)
async def test_redirects_stay_in_the_member(
    ground: Ground, member: RawMember, location: str, shown: str | None
) -> None:
    place = location.replace("SELFHOST", f"127.0.0.1:{member.port}").replace("SELF", member.url)
    if shown is None:
        with pytest.raises(MemberBadAnswer):
            await ground.open(f"/redirect?{place}")
    else:
        exchange = await ground.open(f"/redirect?{place}")
        assert exchange.status == 302
        assert dict(exchange.headers)["Location"] == shown
        await exchange.close()
    assert len(member.heard) == 1


@pytest.mark.parametrize(("path", "kind"), [("/garbage", MemberUnreachable), ("/headers", MemberBadAnswer)])
async def test_answers_that_are_no_http_are_refused(ground: Ground, path: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await ground.open(path)


async def test_switch_that_was_not_asked_for_is_refused(ground: Ground) -> None:
    with pytest.raises(MemberBadAnswer):
        await ground.open("/uninvited")
    with pytest.raises(MemberBadAnswer):
        await ground.open("/uninvited", upgrade="websocket")


async def test_endless_answer_waits_for_its_reader(ground: Ground, member: RawMember) -> None:
    exchange = await ground.open("/endless")
    assert len(await exchange.read()) <= 64 << 10
    assert await stands_still(lambda: member.sent, "the member is held up") < 64 << 20
    await exchange.close()
    await member.ended.wait()


async def test_torn_answer_is_said_to_be_torn(ground: Ground) -> None:
    exchange = await ground.open("/torn")
    with pytest.raises(MemberUnreachable):
        await whole(exchange)
    await exchange.close()


async def test_new_token_is_read_when_the_old_one_is_refused(ground: Ground, member: RawMember) -> None:
    await ground.told("/version")
    member.token = "renewed"
    with pytest.raises(MemberBadAnswer, match="does not accept the token in Secret karmada-cluster/m1-impersonator"):
        await ground.open("/version")
    ground.plane.secret("m1-impersonator", token="renewed")
    await ground.told("/version")
    assert member.heard[-1].values("Authorization") == ["Bearer renewed"]


async def test_refusal_of_a_service_in_the_member_is_passed_on(ground: Ground, member: RawMember) -> None:
    member.token = "another"
    exchange = await ground.open("/api/v1/namespaces/a/services/b/proxy/x")
    assert exchange.status == 401
    await exchange.close()


async def test_clusters_are_read_once_for_many_requests(ground: Ground) -> None:
    await asyncio.gather(*(ground.told("/version") for _ in range(20)))
    assert ground.plane.reads.count(f"{CLUSTERS}/m1") <= 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"impersonatorSecretRef": None}, "has no spec.impersonatorSecretRef"),
        ({"impersonatorSecretRef": {"namespace": "..", "name": "x"}}, "has no spec.impersonatorSecretRef"),
        ({"impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "gone"}}, "does not exist; join"),
        ({"apiEndpoint": "file:///etc/passwd"}, "spec.apiEndpoint of cluster m1 is no URL"),
        ({"apiEndpoint": ""}, "spec.apiEndpoint of cluster m1 is no URL"),
        ({"apiEndpoint": "http://127.0.0.1:1"}, "cannot be reached"),
        ({"syncMode": "Pull"}, "is a pull member"),
        ({"proxyURL": "socks5://127.0.0.1:1"}, "cannot be reached"),
        ({"proxyURL": "ftp://127.0.0.1:1"}, "spec.proxyURL of the Cluster is no proxy"),
    ],
)
async def test_clusters_that_cannot_be_reached_say_why(
    ground: Ground, member: RawMember, change: dict[str, Any], said: str
) -> None:
    ground.plane.member("m1", **{"endpoint": member.url, **change})
    with pytest.raises(MemberUnreachable, match=said):
        await ground.open("/version")
    assert not member.heard


@pytest.mark.parametrize("name", ["nope", "..", "a/b", "A", "*"])
async def test_unknown_clusters_are_unknown(ground: Ground, name: str) -> None:
    with pytest.raises(MemberUnknown):
        await ground.transport.open(MemberRequest(name, "GET", "/", (), "jane", ()))
    assert all(path.count("/") == 5 for path in ground.plane.reads)


async def test_proxy_of_the_cluster_is_used(ground: Ground, member: RawMember) -> None:
    async with raw_member() as way:
        ground.plane.member("m1", "http://m1.example:81", proxyURL=way.url, proxyHeader={"X-Way": "a,b"})
        await ground.told("/version")
        assert way.heard[-1].target == "http://m1.example:81/version"
    assert not member.heard

"""Requests for members through the control plane: rights, identities, streams, switched protocols, hostile ends."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway.conftest import TOKEN
from tests.integration.gateway.member_plane import CLUSTERS, MemberPlane, grant, member_plane
from tests.support.waiting import eventually

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def plane(tmp_path: Path, start_gateway: Any) -> AsyncIterator[MemberPlane]:
    async with member_plane(
        tmp_path,
        start_gateway,
        member_requests=6,
        member_streams=3,
        member_body_bytes=1 << 20,
        member_answer_seconds=4.0,
    ) as made:
        yield made


async def idle(plane: MemberPlane) -> None:
    """Nothing is under way towards members any more."""
    limits = plane.gateway.api.members._limits
    await eventually(lambda: limits.under_way == 0, "the requests for members to end")


async def test_every_verb_reaches_a_real_member(plane: MemberPlane) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    json_type = {"Content_Type": "application/json"}
    assert (await plane.ask("real", MAPS, method="POST", data=json.dumps(made), **json_type))[0] == 201
    assert plane.member.local.get("v1", "configmaps", "default", "a") is not None
    assert plane.control.local.get("v1", "configmaps", "default", "a") is None
    code, found = await plane.ask("real", f"{MAPS}/a")
    assert (code, found["data"]) == (200, {"k": "1"})
    found["data"]["k"] = "2"
    assert (await plane.ask("real", f"{MAPS}/a", method="PUT", data=json.dumps(found), **json_type))[0] == 200
    patch = {"Content_Type": "application/merge-patch+json"}
    code, found = await plane.ask("real", f"{MAPS}/a", method="PATCH", data='{"data":{"l":"3"}}', **patch)
    assert (code, found["data"]) == (200, {"k": "2", "l": "3"})
    assert (await plane.ask("real", "/version", method="HEAD"))[0] == 200
    assert (await plane.ask("real", f"{MAPS}/a", method="DELETE"))[0] == 200
    code, found = await plane.ask("real", f"{MAPS}/a")
    assert (code, found["reason"]) == (404, "NotFound")


async def test_watches_stream_and_end_with_their_caller(plane: MemberPlane) -> None:
    headers = {"Authorization": "Bearer root"}
    async with plane.session.get(plane.url("real", f"{MAPS}?watch=true"), headers=headers) as watch:
        assert watch.status == 200
        await plane.member.local.create("v1", "configmaps", {"metadata": {"name": "seen", "namespace": "default"}})
        event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "seen")
    await idle(plane)


async def test_the_member_decides_by_its_own_roles(plane: MemberPlane) -> None:
    await plane.allow("jane", "real")
    code, found = await plane.ask("real", PODS, "jane")
    assert code == 403
    assert 'User "jane" cannot list resource "pods"' in found["message"]
    await grant(plane.member.local, "jane", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    code, found = await plane.ask("real", PODS, "jane")
    assert (code, found["kind"]) == (200, "PodList")


@pytest.mark.parametrize(
    "attack",
    [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "Content-Length: 5\r\nConnection: Content-Length\r\n\r\nabcde",
    ],
)
async def test_requests_are_not_smuggled(plane: MemberPlane, attack: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.control.port)
    head = f"POST {CLUSTERS}/raw/proxy/first HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n{attack}"
    writer.write(head.encode())
    await reader.readline()
    writer.close()
    await idle(plane)
    assert {heard.target for heard in plane.raw.heard} <= {"/first"}


@pytest.mark.parametrize("upgrade", ["SPDY/3.1", "websocket"])
async def test_other_protocols_pass_both_ways(plane: MemberPlane, upgrade: str) -> None:
    await plane.allow("jane", "raw")
    reader, writer, head = await plane.switched(f"{PODS}/p/exec/switch?command=sh", "jane", upgrade)
    assert head.startswith(b"HTTP/1.1 101 ")
    assert f"Upgrade: {upgrade}".encode() in head
    assert await reader.readexactly(6) == b"early,"
    for number in range(50):
        part = bytes([number]) * 70_000
        writer.write(part)
        assert await reader.readexactly(len(part)) == part
    assert plane.raw.heard[-1].values("Impersonate-User") == ["jane"]
    writer.close()
    await plane.raw.ended.wait()
    await idle(plane)


async def test_refused_switch_is_answered_as_http(plane: MemberPlane) -> None:
    reader, writer, head = await plane.switched("/version", "root")
    assert head.startswith(b"HTTP/1.1 200 ")
    # What follows was meant for the other protocol, and is not read as a request.
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
    rest = await reader.read()
    assert b"HTTP/1.1" not in rest
    writer.close()


async def test_member_that_hangs_up_ends_the_connection(plane: MemberPlane) -> None:
    reader, writer, _ = await plane.switched("/switch", "root")
    await reader.readexactly(6)
    await plane.raw.close()
    assert await reader.read() == b""
    writer.close()
    await idle(plane)


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        ("/hang", 504, "Timeout"),
        ("/garbage", 502, "BadGateway"),
    ],
)
async def test_hostile_answers_become_errors(plane: MemberPlane, path: str, code: int, reason: str) -> None:
    found, status = await plane.ask("raw", path)
    assert (found, status["reason"]) == (code, reason)
    assert status["kind"] == "Status"
    assert (await plane.ask("real", "/version"))[0] == 200
    await idle(plane)


async def test_redirects_within_the_member_lead_through(plane: MemberPlane) -> None:
    headers = {"Authorization": "Bearer root"}
    async with plane.session.get(
        plane.url("raw", "/redirect?/login?a=b"), headers=headers, allow_redirects=False
    ) as found:
        assert found.status == 302
        assert found.headers["Location"] == f"{CLUSTERS}/raw/proxy/login?a=b"


async def test_bodies_are_bounded_and_streamed(plane: MemberPlane) -> None:
    async def parts(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 65536

    code, told = await plane.ask("raw", "/version", method="POST", data=parts(16))
    assert (code, told["size"]) == (200, 16 * 65536)
    code, status = await plane.ask("raw", "/version", method="POST", data=parts(17))
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
    code, status = await plane.ask("raw", "/version", method="POST", data=io.BytesIO(b"x" * (1 << 21)))
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
    await idle(plane)


async def test_one_caller_has_so_many_streams_and_no_more(plane: MemberPlane) -> None:
    await plane.allow("jane")
    opened = [await plane.switched("/switch", "jane") for _ in range(3)]
    _, writer, head = await plane.switched("/switch", "jane")
    assert head.startswith(b"HTTP/1.1 429 ")
    writer.close()
    _, other, head = await plane.switched("/switch", "root")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert (await plane.ask("raw", "/version", "jane"))[0] == 200
    for _, each, _ in (*opened, (None, other, b"")):
        each.close()
    await idle(plane)


async def test_missing_clusters_and_credentials_are_named(plane: MemberPlane) -> None:
    code, status = await plane.ask("nope", "/version")
    assert (code, status["reason"], status["details"]["name"]) == (404, "NotFound", "nope")
    local = plane.control.local
    for name, spec in (
        ("bare", {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1"}),
        ("pull", {"syncMode": "Pull"}),
    ):
        await local.create("cluster.karmada.io/v1alpha1", "clusters", {"metadata": {"name": name}, "spec": spec})
    code, status = await plane.ask("bare", "/version")
    assert code == 503
    assert "impersonatorSecretRef" in status["message"]
    code, status = await plane.ask("pull", PODS + "/p/log")
    assert code == 503
    assert "agent of pull does not answer requests" in status["message"]


async def test_the_gateway_itself_asks_before_it_lets_in(plane: MemberPlane) -> None:
    url = f"{plane.gateway.api.url}{CLUSTERS}/raw/proxy/version"
    forged = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    async with plane.session.get(url, ssl=plane.gateway_tls, headers=forged) as found:
        assert found.status == 401
    # alice of the token file has no rights in the control plane yet.
    bearer = {"Authorization": f"Bearer {TOKEN}", **forged}
    async with plane.session.get(url, ssl=plane.gateway_tls, headers=bearer) as found:
        assert found.status == 403
    async with plane.session.get(url, ssl=plane.gateway_tls, headers={**bearer, "Impersonate-User": "root"}) as found:
        assert found.status == 403
    assert not plane.raw.heard
    await plane.allow("alice", "raw")
    async with plane.session.get(url, ssl=plane.gateway_tls, headers=bearer) as found:
        assert found.status == 200
    assert plane.raw.heard[-1].values("Impersonate-User") == ["alice"]


async def test_discovery_lists_the_way_and_the_kind_stays(plane: MemberPlane) -> None:
    base = plane.control.url
    headers = {"Authorization": "Bearer root"}
    async with plane.session.get(f"{base}/apis/cluster.karmada.io/v1alpha1", headers=headers) as answer:
        names = {item["name"]: item for item in (await answer.json())["resources"]}
    assert {"clusters", "clusters/proxy", "clusters/status"} <= set(names)
    assert names["clusters/proxy"]["kind"] == "Cluster"
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with plane.session.get(f"{base}/apis", headers={**headers, "Accept": accept}) as answer:
        items = {item["metadata"]["name"]: item for item in (await answer.json(content_type=None))["items"]}
    (clusters,) = items["cluster.karmada.io"]["versions"][0]["resources"]
    assert {"proxy", "status"} <= {sub["subresource"] for sub in clusters["subresources"]}
    async with plane.session.get(f"{base}{CLUSTERS}/real", headers=headers) as answer:
        assert (await answer.json())["kind"] == "Cluster"


async def test_an_apiservice_cannot_take_kinds_of_the_server(plane: MemberPlane) -> None:
    local = plane.control.local
    taken = "apps/v1/deployments,cluster.karmada.io/v1alpha1/clusters,cluster.karmada.io/v1alpha1/clusters/status"
    one = local.get("apiregistration.k8s.io/v1", "apiservices", "", "v1alpha1.work.karmada.io")
    assert one is not None
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.work.karmada.io"
    async with plane.session.patch(
        plane.control.url + path,
        data=json.dumps({"metadata": {"annotations": {"fleetlog.io/serves": taken}}}),
        headers={"Authorization": "Bearer root", "Content-Type": "application/merge-patch+json"},
    ) as answer:
        assert answer.status == 200
    backends = plane.control.aggregator._backends  # type: ignore[union-attr]
    await eventually(lambda: not backends["work.karmada.io", "v1alpha1"].delegated, "the annotation to be read")
    assert (await plane.ask("raw", "/version"))[0] == 200
    async with plane.session.get(f"{plane.control.url}{CLUSTERS}", headers={"Authorization": "Bearer root"}) as answer:
        assert (await answer.json())["kind"] == "ClusterList"


async def test_all_clusters_are_listed_and_searched_at_once(plane: MemberPlane) -> None:
    for name in ("one", "two"):
        await plane.member.local.create("v1", "configmaps", {"metadata": {"name": name, "namespace": "default"}})
    code, found = await plane.ask("*", MAPS)
    assert (code, found["kind"]) == (200, "ConfigMapList")
    assert {"one", "two"} <= {item["metadata"]["name"] for item in found["items"]}
    # The raw member answers every GET with 200: what it is asked for is in several clusters.
    code, status = await plane.ask("*", f"{MAPS}/one")
    assert (code, status["reason"]) == (409, "Conflict")
    assert "raw, real" in status["message"]
    assert plane.raw.heard[-1].target == f"{MAPS}/one"
    plane.raw.token = "none"
    code, found = await plane.ask("*", f"{MAPS}/one")
    assert (code, found["metadata"]["name"]) == (200, "one")
    assert (await plane.ask("*", f"{MAPS}/one", method="DELETE"))[0] == 200
    assert plane.member.local.get("v1", "configmaps", "default", "one") is None
    assert (await plane.ask("*", f"{MAPS}/one"))[0] == 404
    assert (await plane.ask("*", MAPS, method="POST", data="{}"))[0] == 405
    assert (await plane.ask("*", f"{MAPS}?watch=true"))[0] == 405
    code, found = await plane.ask("*", "/version")
    assert (code, found["gitVersion"]) == (200, plane.control.settings.git_version)
    assert (await plane.ask("*", "/metrics"))[0] == 403


async def test_all_clusters_show_only_what_each_permits(plane: MemberPlane) -> None:
    await plane.allow("jane", "*")
    plane.raw.token = "none"
    assert (await plane.ask("*", MAPS, "jane"))[0] == 404
    await grant(plane.member.local, "jane", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    assert (await plane.ask("*", MAPS, "jane"))[0] == 200
    assert (await plane.ask("real", MAPS, "jane"))[0] == 403


@pytest.mark.parametrize("path", [f"{PODS}/p/log/hang", f"{PODS}/hang?watch=true"])
async def test_caller_that_leaves_before_the_answer_ends_it(plane: MemberPlane, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.control.port)
    head = f"GET {CLUSTERS}/raw/proxy{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n\r\n"
    writer.write(head.encode())
    await eventually(lambda: plane.raw.heard, "the request to arrive")
    writer.close()
    await idle(plane)
    assert await reader.read() == b""


async def test_streams_outlive_the_time_of_a_request(plane: MemberPlane) -> None:
    headers = {"Authorization": "Bearer root"}
    reader, writer, _ = await plane.switched("/switch?timeout=1s", "root")
    await reader.readexactly(6)
    async with plane.session.get(plane.url("raw", f"{PODS}?watch=true&timeout=1s"), headers=headers) as watch:
        assert await watch.content.readexactly(9) == b'{"n":"1"}'
        # This takes four seconds: both streams are older than what their `timeout` gives other requests.
        assert (await plane.ask("raw", "/hang"))[0] == 504
        assert not watch.content.at_eof()
        writer.write(b"still there")
        assert await reader.readexactly(11) == b"still there"
        watch.close()
    writer.close()
    await idle(plane)

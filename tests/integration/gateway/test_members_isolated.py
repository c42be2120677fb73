"""Nobody reaches a member without `clusters/proxy` of its name, at either door, whatever is asked, and however."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway.member_plane import CLUSTERS, MemberPlane, grant, member_plane

PODS = "/api/v1/namespaces/default/pods"
PATHS = ("", "/", "/version", f"{PODS}?watch=true", f"{PODS}/p/log?follow=true", f"{PODS}/p/exec?command=sh")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
UPGRADES = (("GET", "websocket"), ("POST", "websocket"), ("GET", "SPDY/3.1"), ("POST", "SPDY/3.1"))
GROUP = "cluster.karmada.io"
ODD = (
    f"{CLUSTERS}/real/proxy/../../raw/proxy/version",
    f"{CLUSTERS}/real/proxy/%2e%2e/%2e%2e/raw/proxy/version",
    f"{CLUSTERS}/real%2F..%2Fraw/proxy/version",
    f"{CLUSTERS}/real/../raw/proxy/version",
    f"{CLUSTERS}/r%61w/proxy/version",
    f"{CLUSTERS}/RAW/proxy/version",
    f"{CLUSTERS}/raw%00/proxy/version",
    f"{CLUSTERS}/raw%20/proxy/version",
    f"{CLUSTERS}//raw/proxy/version",
    f"{CLUSTERS}/raw//proxy/version",
    f"{CLUSTERS}/raw/pr%6Fxy/version",
    f"{CLUSTERS}/raw/proxy;x=/version",
    f"/{CLUSTERS}/raw/proxy/version",
    f"/./{CLUSTERS}/raw/proxy/version",
    f"{CLUSTERS}/%2A/proxy/version",
    f"/apis/{GROUP}/v1alpha1/watch/clusters/raw/proxy/version",
    f"/apis/{GROUP}/v1alpha1/namespaces/default/clusters/raw/proxy/version",
    f"/apis/{GROUP}/v1/clusters/raw/proxy/version",
    f"http://x{CLUSTERS}/raw/proxy/version",
    f"{CLUSTERS}/raw/proxy/version#/../../real/proxy/version",
    f"{CLUSTERS}/real/proxy/?a=/../../raw/proxy/version",
)
"""Paths to the member `raw`, as some server may read them."""


@pytest.fixture(params=["embedded", "outside"])
async def plane(request: Any, tmp_path: Path, start_gateway: Any) -> AsyncIterator[MemberPlane]:
    """The door of the embedded control plane, and that of the gateway before one that does not know it."""
    async with member_plane(tmp_path, start_gateway, outside=request.param == "outside") as made:
        yield made


async def sent(plane: MemberPlane, target: str, user: str, method: str = "GET", *headers: str) -> int:
    """The code of the answer to a request as it is written here; 0 where the connection just ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(plane.base.rpartition(":")[2]))
    credentials = [f"Authorization: Bearer {user}"] if user else []
    writer.write("\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *credentials, *headers, "", ""]).encode())
    try:
        line = await reader.readline()
    except ConnectionError:
        line = b""
    finally:
        writer.close()
    return int(line.split()[1]) if line else 0


def upgrading(protocol: str) -> tuple[str, ...]:
    """The headers of a request that asks for another protocol."""
    key = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
    return ("Connection: Upgrade", f"Upgrade: {protocol}", *(key if protocol == "websocket" else ()))


async def nothing_arrives(plane: MemberPlane, user: str, *clusters: str) -> None:
    """Whatever this user asks of these clusters is refused, and no member hears of it."""
    refused = {403} if user else {401, 403}
    for cluster in clusters:
        for path in PATHS:
            target = f"{CLUSTERS}/{cluster}/proxy{path}"
            for method in METHODS:
                assert await sent(plane, target, user, method) in refused | {403}, (method, target)
            for method, protocol in UPGRADES:
                assert await sent(plane, target, user, method, *upgrading(protocol)) in refused | {403}, (
                    method,
                    target,
                )
    assert plane.raw.heard == []


async def test_a_user_without_rights_reaches_nothing(plane: MemberPlane) -> None:
    # Rights beside it do not help: on clusters, on their status, on everything else.
    rules = (
        {"apiGroups": [GROUP], "resources": ["clusters", "clusters/status", "proxy"], "verbs": ["*"]},
        {"apiGroups": ["", "apps", "search.karmada.io"], "resources": ["*", "*/proxy"], "verbs": ["*"]},
        {
            "apiGroups": [GROUP],
            "resources": ["clusters/proxy"],
            "resourceNames": ["real", "ra", "raw2"],
            "verbs": ["*"],
        },
    )
    await grant(plane.control.local, "jane", *rules)
    await nothing_arrives(plane, "jane", "raw", "*")


async def test_someone_unknown_reaches_nothing(plane: MemberPlane) -> None:
    await nothing_arrives(plane, "", "raw", "*")
    assert await sent(plane, f"{CLUSTERS}/raw/proxy/version", "bad") == 401
    assert plane.raw.heard == []


async def test_the_right_to_all_at_once_opens_no_single_member(plane: MemberPlane) -> None:
    await plane.allow("jane", "*", verbs=("*",))
    await nothing_arrives(plane, "jane", "raw")
    await plane.allow("eve", "raw", verbs=("*",))
    await nothing_arrives(plane, "eve", "*")
    assert (await plane.ask("raw", "/version", "eve"))[0] == 200


async def test_each_method_needs_its_own_verb(plane: MemberPlane) -> None:
    await plane.allow("jane", "raw", verbs=("get", "update"))
    await plane.allow("eve", "raw", verbs=("create", "patch", "delete"))
    for user, methods in (("jane", {"GET", "HEAD", "PUT"}), ("eve", {"POST", "PATCH", "DELETE"})):
        plane.raw.heard.clear()
        for method in METHODS:
            wanted = 200 if method in methods else 403
            assert await sent(plane, f"{CLUSTERS}/raw/proxy/version", user, method) == wanted, (user, method)
        for method, protocol in UPGRADES:
            wanted = 101 if method in methods else 403
            code = await sent(plane, f"{CLUSTERS}/raw/proxy/switch", user, method, *upgrading(protocol))
            assert code == wanted, (user, method, protocol)
        assert {heard.method for heard in plane.raw.heard} == methods


async def test_no_spelling_of_a_path_leads_elsewhere(plane: MemberPlane) -> None:
    await plane.allow("jane", "real", verbs=("*",))
    overriding = ("X-Original-URL: /", "X-HTTP-Method-Override: GET", f"X-Rewrite-URL: {CLUSTERS}/raw/proxy/version")
    for target in ODD:
        for method, more in (("GET", ()), ("POST", ()), ("GET", overriding), ("GET", upgrading("websocket"))):
            await sent(plane, target, "jane", method, *more)
        assert plane.raw.heard == [], target


async def test_other_methods_reach_nothing(plane: MemberPlane) -> None:
    for method in ("CONNECT", "TRACE", "PROPFIND", "get", "*"):
        await sent(plane, f"{CLUSTERS}/raw/proxy/version", "root", method)
        assert plane.raw.heard == [], method


async def test_a_caller_cannot_name_another_one(plane: MemberPlane) -> None:
    await plane.allow("jane", "raw", verbs=("*",))
    posing = (
        ("Impersonate-User: root", 403),
        ("impersonate-user: system:admin", 403),
        ("Impersonate-User: jane", 403),
        ("X-Remote-User: root", 200),
        ("X-Remote-Group: system:masters", 200),
        ("X-Remote-Extra-Scopes: all", 200),
        ("X-Forwarded-User: root", 200),
        ("Impersonate_User: root", 200),
        ("X_Remote_User: root", 200),
        ("X-Remote_Group: system:masters", 200),
    )
    for header, code in posing:
        assert await sent(plane, f"{CLUSTERS}/raw/proxy/version", "jane", "GET", header) == code, header
    # Groups, a uid or extra fields without a user are no identity.
    for header in ("Impersonate-Group: system:masters", "Impersonate-Uid: 1", "Impersonate-Extra-Scopes: all"):
        assert await sent(plane, f"{CLUSTERS}/raw/proxy/version", "jane", "GET", header) >= 400, header
    assert len(plane.raw.heard) == sum(code == 200 for _, code in posing)
    for heard in plane.raw.heard:
        assert heard.values("Impersonate-User") == ["jane"]
        assert heard.values("Impersonate-Group") == ["devs"]
        assert heard.values("Authorization") == ["Bearer impersonator"]
        names = {name.lower().replace("_", "-") for name, _ in heard.headers}
        assert not {name for name in names if name.startswith(("x-remote-", "x-forwarded-", "impersonate-extra-"))}
        assert "impersonate-uid" not in names


async def test_who_may_impersonate_is_named_as_the_other(plane: MemberPlane) -> None:
    await plane.allow("jane", "raw", verbs=("get",))
    version = f"{CLUSTERS}/raw/proxy/version"
    as_jane = ("Impersonate-User: jane", "Impersonate-Group: ops", "Impersonate-Group: system:authenticated")
    assert await sent(plane, version, "root", "GET", *as_jane, "Impersonate-Uid: 7", "Impersonate-Extra-A: b") == 200
    (heard,) = plane.raw.heard
    assert heard.values("Impersonate-User") == ["jane"]
    assert heard.values("Impersonate-Group") == ["ops"]
    assert not [name for name, _ in heard.headers if name.lower().startswith(("impersonate-extra", "impersonate-uid"))]
    # The rights are those of the other.
    assert await sent(plane, version, "root", "POST", *as_jane) == 403
    assert len(plane.raw.heard) == 1

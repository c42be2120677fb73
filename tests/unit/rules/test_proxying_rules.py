"""Which paths, headers and identities of a request for a member are carried on."""

from __future__ import annotations

import pytest

from services._rules.proxying.header_rules import BadIdentity, identity_headers, to_caller, to_member, upgrade_of
from services._rules.proxying.inner_requests import BadPath, check_path, inner_path, inner_resource, lasts

OUTER = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy"


@pytest.mark.parametrize(
    ("raw", "inner"),
    [
        (OUTER, "/"),
        (f"{OUTER}/", "/"),
        (f"{OUTER}/api/v1/pods", "/api/v1/pods"),
        (f"{OUTER}//api/v1/pods", "/api/v1/pods"),
        (f"{OUTER}/api/v1/namespaces/a/services/https:x:1/proxy/a%20b//c/", None),
    ],
)
def test_inner_path_is_kept_as_it_was_sent(raw: str, inner: str | None) -> None:
    assert inner_path(raw, 6) == (raw.removeprefix(OUTER) if inner is None else inner)


@pytest.mark.parametrize(
    "path",
    [
        "/api/../secret",
        "/api/v1/..",
        "/./api",
        "/api/%2e%2e/x",
        "/api/%2E./x",
        "/a/..%2fb",
        "/a/%252e%252e/b",
        "/a/..%5cb",
        "/a\\..\\b",
        "/a/%0d%0aHost:%20evil",
        "/a/%00",
        "/a b",
        "/ä",
    ],
)
def test_paths_that_could_be_read_otherwise_are_refused(path: str) -> None:
    with pytest.raises(BadPath):
        check_path(path)
    with pytest.raises(BadPath):
        inner_path(f"{OUTER}{path}", 6)


@pytest.mark.parametrize("path", ["/", "/api/v1/a...b", "/x/.hidden/..x", "/a%2Fb", "/a%25"])
def test_harmless_paths_pass(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("method", "path", "query", "upgrade", "expected"),
    [
        ("GET", "/api/v1/pods", {"watch": "true"}, "", True),
        ("GET", "/api/v1/pods", {"watch": "1"}, "", True),
        ("GET", "/api/v1/pods", {"watch": "false"}, "", False),
        ("GET", "/api/v1/watch/pods", {}, "", True),
        ("POST", "/api/v1/pods", {"watch": "true"}, "", False),
        ("GET", "/api/v1/namespaces/a/pods/b/log", {}, "", True),
        ("POST", "/api/v1/namespaces/a/pods/b/exec", {}, "", True),
        ("GET", "/api/v1/namespaces/watch/pods/b", {}, "", False),
        ("GET", "/api/v1/namespaces/a/configmaps/log", {}, "", False),
        ("GET", "/version", {"watch": "true"}, "", False),
        ("GET", "/version", {}, "websocket", True),
    ],
)
def test_what_may_run_for_long(method: str, path: str, query: dict[str, str], upgrade: str, expected: bool) -> None:
    assert lasts(method, path, query, upgrade) is expected


def test_namespaces_and_their_subresources_are_told_apart() -> None:
    found = inner_resource("/api/v1/namespaces/a/finalize")
    assert found is not None
    assert (found.resource, found.name, found.subresource) == ("namespaces", "a", "finalize")
    found = inner_resource("/apis/apps/v1/namespaces/a/deployments/b/scale")
    assert found is not None
    assert (found.namespace, found.resource, found.name, found.subresource) == ("a", "deployments", "b", "scale")


def test_credentials_and_identities_of_callers_stay_behind() -> None:
    given = [
        ("Authorization", "Bearer caller"),
        ("Cookie", "a=b"),
        ("Impersonate-User", "root"),
        ("impersonate-extra-x", "y"),
        ("X-Remote-User", "root"),
        ("X_Remote_User", "root"),
        ("Impersonate_User", "root"),
        ("X-Forwarded-For", "1.1.1.1"),
        ("Proxy-Authorization", "Basic x"),
        ("Host", "control"),
        ("Connection", "keep-alive, X-Secret"),
        ("X-Secret", "of this connection"),
        ("Transfer-Encoding", "chunked"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Bad", "a\r\nImpersonate-User: root"),
        ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.dG9r, v5.channel.k8s.io"),
        ("Content-Type", "application/json"),
        ("Accept", "a"),
        ("Accept", "b"),
    ]
    assert to_member(given) == (
        ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
        ("Content-Type", "application/json"),
        ("Accept", "a"),
        ("Accept", "b"),
    )


def test_answers_speak_for_the_member_only() -> None:
    given = [
        ("Set-Cookie", "session=stolen"),
        ("Access-Control-Allow-Origin", "*"),
        ("WWW-Authenticate", "Basic"),
        ("Strict-Transport-Security", "max-age=1"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "3"),
        ("Warning", '299 - "w"'),
    ]
    assert to_caller(given) == (("Content-Length", "3"), ("Warning", '299 - "w"'))


def test_groups_that_every_server_adds_are_not_impersonated() -> None:
    groups = ("devs", "system:authenticated", "system:unauthenticated", "devs")
    assert identity_headers("jane", groups) == (("Impersonate-User", "jane"), ("Impersonate-Group", "devs"))


@pytest.mark.parametrize(
    ("user", "groups"),
    [("", ()), (" system:admin", ()), ("a\r\nb", ()), ("jane", ("system:masters ",)), ("jane", ("\tsystem:masters",))],
)
def test_names_that_would_become_others_are_refused(user: str, groups: tuple[str, ...]) -> None:
    with pytest.raises(BadIdentity):
        identity_headers(user, groups)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")], "SPDY/3.1"),
        ([("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], "websocket"),
        ([("Upgrade", "websocket")], ""),
        ([("Connection", "Upgrade"), ("Upgrade", "a"), ("Upgrade", "b")], ""),
    ],
)
def test_protocol_that_a_request_asks_for(headers: list[tuple[str, str]], expected: str) -> None:
    assert upgrade_of(headers) == expected

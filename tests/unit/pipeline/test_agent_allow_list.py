"""Which requests of the hub's callers a member permits by its agent's list."""

from __future__ import annotations

from pathlib import Path

import pytest

from services._kit.base.settings import SettingsError
from services.agent.tunnel.allow_list import AllowList, allow_list

PODS = "/api/v1/namespaces/web/pods"
LIST = """
- verbs: [get, list]
  apiGroups: ["", apps]
  resources: [pods, pods/log, deployments]
  namespaces: [web, shop]
- verbs: [create]
  apiGroups: [""]
  resources: [pods/exec]
  resourceNames: [debug]
  namespaces: [web]
- verbs: [get]
  nonResourceURLs: [/metrics, /logs/*]
"""


@pytest.fixture
def listed(tmp_path: Path) -> AllowList:
    """The list above."""
    path = tmp_path / "permitted.yaml"
    path.write_text(LIST)
    return allow_list(str(path))


@pytest.mark.parametrize(
    ("method", "path", "permitted"),
    [
        ("GET", PODS, True),
        ("GET", f"{PODS}/a", True),
        ("HEAD", f"{PODS}/a", True),
        ("GET", f"{PODS}/a/log?follow=true", True),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments/x", True),
        ("GET", f"{PODS}?watch=true", False),
        ("GET", f"{PODS}?watch=0", True),
        ("GET", f"{PODS}?watch=0&watch=1", False),
        ("GET", "/api/v1/watch/namespaces/web/pods", False),
        ("GET", "/api/v1/pods", False),
        ("GET", "/api/v1/namespaces/kube-system/pods", False),
        ("GET", "/api/v1/namespaces/web/secrets", False),
        ("GET", "/api/v1/namespaces/web", False),
        ("POST", PODS, False),
        ("DELETE", f"{PODS}/a", False),
        ("DELETE", PODS, False),
        ("PATCH", f"{PODS}/a", False),
        ("PUT", f"{PODS}/a/status", False),
        ("POST", f"{PODS}/debug/exec?command=sh", True),
        ("GET", f"{PODS}/debug/exec?command=sh", True),
        ("GET", f"{PODS}/other/exec?command=sh", False),
        ("GET", f"{PODS}/debug/attach", False),
        ("GET", f"{PODS}/debug/proxy/admin", False),
        ("GET", "/metrics", True),
        ("POST", "/metrics", False),
        ("GET", "/logs/kube.log", True),
        ("GET", "/debug/pprof", False),
        ("GET", "/api", True),
        ("GET", "/apis/apps/v1", True),
        ("GET", "/openapi/v3/apis/apps/v1?hash=x", True),
        ("GET", "/version", True),
        ("POST", "/version", False),
    ],
)
def test_a_list_permits_what_it_names(listed: AllowList, method: str, path: str, permitted: bool) -> None:
    assert (listed.problem(method, path) == "") is permitted


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/debug%2Fexec",
        f"{PODS}/debug%2fexec?command=sh",
        f"{PODS}/../secrets",
        f"{PODS}/%2e%2e/secrets",
        f"{PODS}/x%252f..%252fexec",
        "/api/v1/namespaces/web//pods",
        "/api/v1//namespaces/web/pods",
        "/api/v1/namespaces/web%2Fpods",
        "/metrics%2F..%2Fapi",
        "//metrics",
        f"{PODS}/a\\b/../..",
        f"{PODS}/a\nb",
    ],
)
def test_a_path_with_two_readings_is_refused(path: str) -> None:
    assert allow_list("all").problem("GET", path) != ""


def test_reading_enters_no_pod_and_shows_no_secret() -> None:
    reads = allow_list("read")
    assert reads.problem("GET", f"{PODS}/a/log") == ""
    assert reads.problem("GET", f"{PODS}?watch=true") == ""
    for method, path in (
        ("GET", f"{PODS}/a/exec?command=sh"),
        ("GET", f"{PODS}/a/portforward"),
        ("GET", "/api/v1/nodes/n/proxy/pods"),
        ("GET", "/api/v1/namespaces/web/secrets/s"),
        ("DELETE", f"{PODS}/a"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ):
        assert "does not permit" in reads.problem(method, path), path


def test_everything_is_everything() -> None:
    every = allow_list("all")
    for method, path in (("DELETE", PODS), ("GET", f"{PODS}/a/exec"), ("GET", "/metrics"), ("POST", "/x/y")):
        assert every.problem(method, path) == ""
    assert every.problem("GET", f"{PODS}/a/proxy/some//page") == ""


def test_without_entries_nothing_but_discovery_is_permitted() -> None:
    assert AllowList().problem("GET", PODS) == (
        "its agent does not permit list pods in namespace web (FLEETLOG_AGENT_REQUESTS in the member)"
    )
    assert AllowList().problem("GET", "/apis") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- verb: [get]", "verb"),
        ("- verbs: get", "verbs"),
        ("verbs: [get]", "array"),
        ("[", "parsing"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "permitted.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"(?s)FLEETLOG_AGENT_REQUESTS.*{words}"):
        allow_list(str(path))


def test_a_list_that_is_missing_is_named() -> None:
    with pytest.raises(SettingsError, match=r"FLEETLOG_AGENT_REQUESTS.*/no/such"):
        allow_list("/no/such")

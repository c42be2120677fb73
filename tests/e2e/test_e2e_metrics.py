"""Metrics of two push members and one pull member with plain kubectl, and what tenants may read of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.fleet import Failed, Fleet, Kubectl, until
from tests.e2e.space import Space
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("views")

CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"


@pytest.fixture
def pods(members: dict[str, Kubectl], space: Space) -> Iterator[str]:
    """One pod of Deployment `web` in each member, made there by hand; the namespace."""
    for member in members.values():
        member.run("create", "namespace", space.name, check=False)
        member.run("create", "deployment", "web", "--image=nginx", namespace=space.name)
    for name, member in members.items():
        until(f"a pod of {name}", lambda member=member: [*_running(member, space.name)])
    yield space.name
    for member in members.values():
        member.run("delete", "deployment", "web", namespace=space.name)


def _running(member: Kubectl, namespace: str) -> Iterator[str]:
    for item in member.items("pods", namespace):
        if item.get("status", {}).get("phase") == "Running":
            yield item["metadata"]["name"]


def raw(kubectl: Kubectl, path: str) -> dict[str, Any]:
    """What a path answers."""
    found: dict[str, Any] = json.loads(kubectl.run("get", "--raw", path))
    return found


def sim(fleet: Fleet, *arguments: str) -> None:
    """Set a value in all members that have its target."""
    ended = run_command("fleetlog", "sim", "metric", *arguments, "--dir", str(fleet.layout.directory))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.main_path
def test_kubectl_top_shows_pods_and_nodes_of_all_members(
    control: Kubectl, members: dict[str, Kubectl], pods: str
) -> None:
    there = {name for member in members.values() for name in _running(member, pods)}
    rows = until("three rows", lambda: [*_rows(control, "top", "pods", namespace=pods, most=3)])
    assert {row[0] for row in rows} == there
    assert {row[0] for row in _rows(control, "top", "nodes")} >= {f"{name}-node-1" for name in members}
    clusters = {row[1] for row in _rows(control, "get", "pods.metrics.k8s.io", namespace=pods)}
    assert clusters == set(members)
    one = min(there)
    assert [row[0] for row in _rows(control, "top", "pod", one, namespace=pods)] == [one]
    assert not _rows(control, "top", "pods", "-l", "app=none", namespace=pods)
    with pytest.raises(Failed, match="was found in no cluster"):
        control.run("top", "pod", "none", namespace=pods)


def _rows(kubectl: Kubectl, *arguments: str, namespace: str = "", most: int = 0) -> list[list[str]]:
    """The rows of a table; none while there are fewer than `most`."""
    lines = kubectl.run(*arguments, "--no-headers", namespace=namespace, check=False).splitlines()
    found = [line.split() for line in lines if "No resources" not in line]
    return found if len(found) >= most else []


def test_custom_and_external_metrics_are_those_of_all_members(fleet: Fleet, control: Kubectl, pods: str) -> None:
    sim(fleet, "hits", "--of", "deploy/web", "--value", "700m", "-n", pods)
    found = raw(control, f"{CUSTOM}/namespaces/{pods}/pods/*/hits?labelSelector=app%3Dweb")
    assert [item["value"] for item in found["items"]] == ["700m"] * 3
    sim(fleet, "size", "--of", f"namespaces/{pods}", "--value", "5", "-n", "")
    found = raw(control, f"{CUSTOM}/namespaces/{pods}/metrics/size")
    assert [item["value"] for item in found["items"]] == ["15"]
    sim(fleet, "queue", "--value", "30", "--label", "q=mail", "-n", pods)
    found = raw(control, f"{EXTERNAL}/namespaces/{pods}/queue?labelSelector=q%3Dmail")
    assert [(item["metricLabels"], item["value"]) for item in found["items"]] == [({"q": "mail"}, "90")]
    with pytest.raises(Failed, match="metric 'none' is served by no cluster"):
        raw(control, f"{EXTERNAL}/namespaces/{pods}/none")
    until(
        "the metrics in discovery",
        lambda: "pods/hits" in {each["name"] for each in raw(control, CUSTOM)["resources"]},
    )
    assert "metrics.k8s.io/v1beta1" in control.run("api-versions").split()


def test_a_tenant_reads_the_metrics_of_its_namespace(control: Kubectl, pods: str) -> None:
    user = f"{pods}-ann"
    with pytest.raises(Failed, match="cannot list resource"):
        control.run("top", "pods", "--as", user, namespace=pods)
    control.run("create", "rolebinding", "ann", "--clusterrole=view", f"--user={user}", namespace=pods)
    until("its rights", lambda: _rows(control, "top", "pods", "--as", user, namespace=pods, most=3))
    with pytest.raises(Failed, match="cannot list resource"):
        control.run("top", "pods", "-A", "--as", user)
    with pytest.raises(Failed, match="cannot get resource"):
        control.run("get", "--raw", f"{CUSTOM}/namespaces/{pods}/pods/*/hits", "--as", user)

"""Metrics of two push members and one pull member with plain kubectl, and what tenants may read of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.fleet import Failed, Kubectl, until
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("views")


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

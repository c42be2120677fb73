"""Members through the control plane with kubectl: by an administrator, and by a service account with few rights."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.entering import CLUSTERS
from tests.e2e.fleet import Failed, Kubectl, until
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("policies")


def server_of(kubectl: Kubectl) -> str:
    """The URL of the control plane in a kubeconfig."""
    return str(yaml.safe_load(kubectl.run("config", "view", "-o", "yaml"))["clusters"][0]["cluster"]["server"])


@pytest.mark.main_path
def test_administrator_uses_a_member_by_the_server_suffix(control: Kubectl, members: dict[str, Kubectl]) -> None:
    nodes = control.run("get", "--raw", f"{CLUSTERS}/member1/proxy/api/v1/nodes")
    assert "member1-node-1" in nodes
    server = f"{server_of(control)}{CLUSTERS}/member1/proxy"
    control.run("--server", server, "create", "configmap", "by-proxy", "--from-literal=a=b")
    assert members["member1"].get("configmap", "by-proxy") is not None
    assert control.get("configmap", "by-proxy") is None
    assert "by-proxy" in control.run("--server", server, "get", "configmaps", "-o", "name")
    control.run("--server", server, "delete", "configmap", "by-proxy")
    assert members["member1"].get("configmap", "by-proxy") is None


def test_service_account_needs_rights_on_both_sides(
    control: Kubectl, members: dict[str, Kubectl], space: Space, tmp_path: Path
) -> None:
    user = f"{space.name}-tom"
    account = f"--serviceaccount={space.name}:tom"
    control.run("create", "serviceaccount", "tom", namespace=space.name)
    token = control.run("create", "token", "tom", namespace=space.name).strip()
    document = yaml.safe_load(control.run("config", "view", "--minify", "--flatten", "-o", "yaml", "--raw"))
    document["users"][0]["user"] = {"token": token}
    path = tmp_path / "tom.kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    tom = Kubectl(path)
    with pytest.raises(Failed, match='cannot get resource "clusters/proxy"'):
        tom.run("get", "--raw", f"{CLUSTERS}/member1/proxy/apis")
    proxy = "clusters.cluster.karmada.io/proxy"
    control.run("create", "clusterrole", user, "--verb=get", f"--resource={proxy}", "--resource-name=member1")
    control.run("create", "clusterrolebinding", user, f"--clusterrole={user}", account)
    try:
        assert "APIGroupList" in tom.run("get", "--raw", f"{CLUSTERS}/member1/proxy/apis")
        with pytest.raises(Failed, match='cannot list resource "nodes"'):
            tom.run("get", "--raw", f"{CLUSTERS}/member1/proxy/api/v1/nodes")
        with pytest.raises(Failed, match='cannot get resource "clusters/proxy"'):
            tom.run("get", "--raw", f"{CLUSTERS}/member2/proxy/apis")
        members["member1"].run("create", "clusterrole", user, "--verb=list", "--resource=nodes")
        members["member1"].run("create", "clusterrolebinding", user, f"--clusterrole={user}", account)
        until(
            "the nodes of member1",
            lambda: "NodeList" in tom.run("get", "--raw", f"{CLUSTERS}/member1/proxy/api/v1/nodes", check=False),
        )
    finally:
        for kubectl in (control, members["member1"]):
            kubectl.run("delete", "clusterrole,clusterrolebinding", user, check=False)


def test_all_members_are_listed_at_once(control: Kubectl) -> None:
    nodes = control.run("get", "--raw", f"{CLUSTERS}/*/proxy/api/v1/nodes")
    assert "member1-node-1" in nodes
    assert "member2-node-1" in nodes

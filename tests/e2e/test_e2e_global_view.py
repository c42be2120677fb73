"""All members as one API server: the global proxy, with kubectl (journeys 97, 100, 101)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Failed, Fleet, Kubectl, until, until_equal
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("views")

MARK = "resource.karmada.io/cached-from-cluster"
PROXY = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"


@pytest.fixture
def registered(space: Space) -> Iterator[Space]:
    """A namespace while pods, nodes and config maps of two members are selected."""
    name = f"{space.name}-some"
    space.apply(
        {
            "apiVersion": "search.karmada.io/v1alpha1",
            "kind": "ResourceRegistry",
            "metadata": {"name": name},
            "spec": {
                "targetCluster": {"clusterNames": ["member1", "member2"]},
                "resourceSelectors": [{"apiVersion": "v1", "kind": kind} for kind in ("Pod", "Node", "ConfigMap")],
            },
        }
    )
    yield space
    space.control.delete("resourceregistry", name)


def beside(space: Space, kubeconfig: Path, *, token: str = "", namespace: str = "") -> Kubectl:
    """kubectl whose kubeconfig names the global proxy as its server."""
    config = json.loads(space.control.run("config", "view", "--minify", "--flatten", "-o", "json"))
    config["clusters"][0]["cluster"]["server"] += PROXY
    config["contexts"][0]["context"]["namespace"] = namespace or space.name
    if token:
        config["users"][0]["user"] = {"token": token}
    kubeconfig.write_text(json.dumps(config))
    return Kubectl(kubeconfig)


@pytest.fixture
def everywhere(registered: Space, tmp_path: Path) -> Kubectl:
    """kubectl of the global proxy, once it knows what is selected."""
    kubectl = beside(registered, tmp_path / "view.kubeconfig")
    until_equal("clusters of the nodes", lambda: sorted(set(_origins(kubectl, "nodes"))), ["member1", "member2"])
    return kubectl


def _origins(kubectl: Kubectl, kind: str, *more: str) -> list[str]:
    found = json.loads(kubectl.run("get", kind, *more, "-o", "json"))
    return [item["metadata"]["annotations"][MARK] for item in found["items"]]


def pods_in(space: Space, member: str, *names: str) -> None:
    """Pods that run in a member."""
    for name in names:
        space.member[member].apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": space.name, "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
            }
        )

    def running() -> bool:
        found = space.member[member].items("pods", space.name)
        return {pod["metadata"]["name"] for pod in found if pod.get("status", {}).get("phase") == "Running"} >= set(
            names
        )

    until(f"running pods of {member}", running)


def listed(kubectl: Kubectl, *more: str) -> list[list[str]]:
    return [line.split() for line in kubectl.run("get", "pods", "--no-headers", *more).splitlines()]


@pytest.mark.main_path
def test_members_are_read_as_one_cluster(registered: Space, everywhere: Kubectl) -> None:
    pods_in(registered, "member1", "a")
    pods_in(registered, "member2", "b")
    pods_in(registered, "member3", "c")
    until_equal(
        "pods", lambda: [row[:3] for row in listed(everywhere)], [["a", "1/1", "Running"], ["b", "1/1", "Running"]]
    )
    assert [row[0] for row in listed(everywhere, "--chunk-size=1", "-l", "app=web")] == ["a", "b"]
    assert _origins(everywhere, "pods") == ["member1", "member2"]
    found = json.loads(everywhere.run("get", "pod", "b", "-o", "json"))
    assert found["metadata"]["annotations"][MARK] == "member2"
    assert "nginx:1.27" in everywhere.run("describe", "pod", "b")
    assert len(everywhere.run("get", "nodes", "--no-headers").splitlines()) == sum(
        len(registered.member[name].items("nodes")) for name in ("member1", "member2")
    )


def test_containers_are_entered_by_the_name_of_the_pod(registered: Space, everywhere: Kubectl) -> None:
    pods_in(registered, "member2", "b")
    until("the pod", lambda: listed(everywhere))
    everywhere.run("logs", "b", "--tail=5")
    assert "hello" in everywhere.run("exec", "b", "--", "echo", "hello")


def test_rights_count_here_and_in_members(registered: Space, everywhere: Kubectl, fleet: Fleet, tmp_path: Path) -> None:
    space = registered
    space.control.run("create", "serviceaccount", "tom", namespace=space.name)
    token = space.control.run("create", "token", "tom", namespace=space.name).strip()
    tom = beside(space, tmp_path / "tom.kubeconfig", token=token)
    with pytest.raises(Failed, match="proxying"):
        tom.run("get", "configmaps")
    account = f"--serviceaccount={space.name}:tom"
    name = f"{space.name}-view"
    resource = "--resource=proxying.search.karmada.io/proxy"
    space.control.run("create", "clusterrole", name, "--verb=get,list,watch,create,update,patch,delete", resource)
    space.control.run("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    try:
        with pytest.raises(Failed, match="cannot list resource"):
            tom.run("get", "configmaps")
        for member in ("member1", "member2"):
            space.member[member].run(
                "create", "rolebinding", "tom", "--clusterrole=view", account, namespace=space.name
            )
        space.member["member1"].run("create", "configmap", "a", namespace=space.name)
        until("config maps for tom", lambda: "a" in tom.run("get", "configmaps", "-o", "name"))
        with pytest.raises(Failed, match="cannot delete resource"):
            tom.run("delete", "configmap", "a")
        with pytest.raises(Failed, match="cannot list resource"):
            tom.run("get", "secrets")
    finally:
        space.control.run("delete", "clusterrolebinding,clusterrole", name)

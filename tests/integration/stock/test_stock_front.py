"""One kubeconfig for everything: what `up` writes for an outside control plane leads to all kinds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from services._kit.kube.client import KubeClient, resource_path
from services.cli.common.layout import CONTROL
from services.cli.members.member_account import ensure
from tests.e2e.fleet import Failed, Kubectl, until
from tests.e2e.kubectls import current_kubectl
from tests.integration.stock.conftest import Stock
from tests.integration.stock.walking import Walk, comes_to

pytestmark = pytest.mark.xdist_group("stock")


@pytest.fixture
def kubectl(stock: Stock) -> Kubectl:
    """kubectl with the kubeconfig that `up` wrote."""
    if not current_kubectl():
        pytest.skip("kubectl is not installed and Debian's package cannot be fetched")
    return stock.fleet.kubectl()


async def test_bindings_works_and_clusters_are_listed(kubectl: Kubectl, stock: Stock, walk: Walk) -> None:
    await walk.begin()
    await comes_to("replicas by member", walk.replicas, {walk.first: 1, walk.second: 1})
    shown = kubectl.run("get", "rb,work,clusters", "-A")
    assert f"resourcebinding.work.karmada.io/{walk.name}" in shown
    assert "work.work.karmada.io/" in shown
    for name in stock.names:
        assert f"cluster.cluster.karmada.io/{name}" in shown
    assert walk.name in kubectl.run("get", "deployments", "-A")


def test_writes_and_watches_pass_through_it(kubectl: Kubectl) -> None:
    name = "through-the-gateway"
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    environment = {"KUBECONFIG": str(kubectl.kubeconfig)}
    command = [
        current_kubectl(),
        f"--cache-dir={kubectl.kubeconfig.parent / 'kubectl-cache'}",
        "get",
        "configmaps",
        "-n",
        "default",
        "--watch",
        "--output-watch-events",
        "-o",
        "name",
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            kubectl.apply(manifest)
            kubectl.apply({**manifest, "data": {"a": "b"}})
            line = ""
            while name not in line:
                line = watching.stdout.readline()
                assert line, "the watch ended"
        finally:
            watching.kill()
    kubectl.delete("configmap", name, "default")
    assert name not in kubectl.names("configmaps", "default")


def changed(kubectl: Kubectl, directory: Path, user: dict[str, str]) -> Kubectl:
    """The same with other credentials."""
    content = json.loads(kubectl.kubeconfig.read_text())
    content["users"][0]["user"] = user
    path = directory / "kubeconfig"
    path.write_text(json.dumps(content))
    return Kubectl(path, cache=directory / "cache")


def test_the_gateway_lends_no_rights(kubectl: Kubectl, stock: Stock, tmp_path: Path) -> None:
    content = json.loads(kubectl.kubeconfig.read_text())
    assert content["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
    given = yaml.safe_load(stock.servers.control.read_text())["users"][0]["user"]
    # A token is passed on; a client certificate, which those of the embedded servers hold, cannot be.
    assert content["users"][0]["user"] == {"token": given.get("token", stock.fleet.installation.token)}
    assert kubectl.kubeconfig.stat().st_mode & 0o077 == 0
    assert "default" in kubectl.run("get", "namespaces")
    for user in ({"username": "a", "password": "b"}, {"token": "made-up"}):
        for kind in ("rb", "configmaps"):
            with pytest.raises(Failed, match=r"Unauthorized|must be logged in|provide credentials"):
                changed(kubectl, tmp_path, user).run("get", kind, "-A")


async def test_tokens_of_others_are_judged_by_the_control_plane(
    kubectl: Kubectl, control: KubeClient, tmp_path: Path
) -> None:
    accounts = resource_path("", "v1", "serviceaccounts", "default")
    await ensure(control, accounts, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "reader"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await control.create(f"{accounts}/reader/token", request))["status"]["token"]
    own = changed(kubectl, tmp_path, {"token": token})
    for kind in ("rb", "configmaps", "clusters"):
        own.run("get", kind, "-A")


def test_karmadactl_works_with_it(stock: Stock) -> None:
    from tests.support.commands import run_command

    def listed() -> bool:
        done = run_command("karmadactl", "get", "clusters", KUBECONFIG=str(stock.fleet.layout.kubeconfig(CONTROL)))
        return done.returncode == 0 and all(name in done.stdout for name in stock.names)

    until("the clusters", listed)

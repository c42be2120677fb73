"""`karmadactl init` on a cluster that runs pods: etcd and kube-apiserver, members that join, and `deinit`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Final

import pytest

from k8s.images import ETCD_IMAGE, KUBE_APISERVER_IMAGE
from services.cli.hosting.init_options import HOST_NAMESPACE as SYSTEM
from tests.containers import engine
from tests.containers.cluster.pod_cluster import PodCluster
from tests.containers.in_cluster import SECONDS, Installed
from tests.e2e.fleet import Failed, until

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(900)]
PORT: Final = 32443
ONCE: Final = ("karmada-apiserver", "karmada-scheduler", "karmada-controller-manager", "karmada-webhook")
"""One instance of each, for the sake of time; the log has three servers in any case."""
REGISTERED: Final = "member4"
AGENTS: Final = "agents"
REGISTRY: Final = {
    "apiVersion": "search.karmada.io/v1alpha1",
    "kind": "ResourceRegistry",
    "metadata": {"name": "deployments"},
    "spec": {"targetCluster": {}, "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
}
STAYS: Final = ("data-etcd-0", "data-nats-0", "data-nats-1", "data-nats-2")


@pytest.fixture(scope="module")
def installed(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """What init makes, with a kube-apiserver that is older than the one of the manifests."""
    for name in (engine.NATS_POD_IMAGE, ETCD_IMAGE, KUBE_APISERVER_IMAGE):
        if not engine.has_image(name):
            pytest.skip(f"the engine has no image {name}; {engine.PREPARE}")
    place = tmp_path_factory.mktemp("init")
    data = place / "karmada"
    with PodCluster(place, "fleetlog-test-init") as cluster:
        made = Installed(cluster, place, SYSTEM, data / "karmada-apiserver.config")
        began = time.monotonic()
        once = " ".join(f"--{name}-replicas 1" for name in (*ONCE, "karmada-aggregated-apiserver"))
        out = made.shell(
            f"karmadactl init --karmada-data {data} --port {PORT} {once} --wait-component-ready-timeout 300 "
            f"--karmada-apiserver-advertise-address {cluster.node_address}"
        )
        print(f"init: {time.monotonic() - began:.1f} s; {cluster.counted()}")
        assert f"karmadactl --kubeconfig {made.control.kubeconfig} join NAME" in out
        yield made


def test_parts_run_and_the_control_plane_answers(installed: Installed) -> None:
    assert installed.lacking() == {}
    for name in ("etcd", "kube-apiserver", "nats", "gateway", "webhook"):
        assert installed.pods(name), name
    assert f"https://{installed.cluster.node_address}:{PORT}" in installed.control.kubeconfig.read_text()
    assert "v1alpha1.cluster.karmada.io" in installed.control.run("get", "apiservices")
    # The webhook is asked by the kube-apiserver, over the names of the cluster.
    wrong = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "one"}]},
        },
    }
    with pytest.raises(Failed, match="denied the request"):
        installed.control.apply(wrong)


def test_nginx_runs_in_a_member_that_joined(installed: Installed) -> None:
    began = time.monotonic()
    member = installed.join()
    installed.runs_nginx(member)
    # Requests for a member go by the kube-apiserver to the gateway behind it.
    control = installed.control.kubeconfig
    assert "nginx" in installed.shell(f"karmadactl --kubeconfig {control} get pods -C {member}")
    pod = installed.shell(f"karmadactl --kubeconfig {control} get pods -C {member} -o name").split()[0]
    assert "nginx" in installed.shell(f"karmadactl --kubeconfig {control} describe {pod} -C {member}")
    print(f"a push member and nginx: {time.monotonic() - began:.1f} s")


def test_a_cluster_registers_itself_at_init(installed: Installed) -> None:
    began = time.monotonic()
    control, host = installed.control.kubeconfig, installed.host.kubeconfig
    told = installed.shell(f"karmadactl --kubeconfig {control} token create --print-register-command")
    installed.shell(f"{told.strip()} --cluster-name {REGISTERED} --namespace {AGENTS} --agent-requests all")
    installed.control.run("wait", "--for=condition=Ready", f"cluster/{REGISTERED}", "--timeout=90s")
    installed.runs_pods(REGISTERED)
    assert "web" in installed.shell(f"karmadactl --kubeconfig {control} get deployments -C {REGISTERED}")
    # Search asks the push member by itself and the pull member by its agent, and is asked through the kube-apiserver.
    installed.control.apply(REGISTRY)
    find = f"fleetlog search kind=Deployment namespace=default -o name --kubeconfig {control}"
    names = {f"{REGISTERED}/default/deployment.apps/web", "member1/default/deployment.apps/nginx"}
    until("objects of both members are found", lambda: names <= {*installed.shell(find).split()}, SECONDS)
    installed.shell(
        f"karmadactl --kubeconfig {control} unregister {REGISTERED} --cluster-kubeconfig {host} --namespace {AGENTS}"
    )
    assert installed.host.names("deployments,secrets", AGENTS) == []
    installed.until_shut_out(REGISTERED)
    print(f"a cluster that registers itself: {time.monotonic() - began:.1f} s")


def test_addons_of_init_are_listed(installed: Installed) -> None:
    at = f"--karmada-kubeconfig {installed.control.kubeconfig}"
    found = installed.addons(at)
    assert found.pop("karmada-descheduler") == "disabled"
    assert set(found.values()) == {"enabled"}


def test_deinit_leaves_what_it_says(installed: Installed) -> None:
    began = time.monotonic()
    out = installed.shell("karmadactl deinit --force")
    until("no pod is left", lambda: not installed.host.names("pods", SYSTEM), SECONDS)
    print(f"deinit: {time.monotonic() - began:.1f} s")
    kinds = "deployments,statefulsets,services,secrets,poddisruptionbudgets,networkpolicies,endpoints"
    assert installed.host.names(kinds, SYSTEM) == []
    assert installed.host.names("serviceaccounts", SYSTEM) == ["default"]
    assert installed.host.names("configmaps", SYSTEM) == ["kube-root-ca.crt"]
    assert sorted(installed.host.names("persistentvolumeclaims", SYSTEM)) == sorted(STAYS)
    (command,) = (line.partition(": ")[2] for line in out.splitlines() if "delete pvc" in line)
    installed.shell(command)
    assert installed.host.names("persistentvolumeclaims", SYSTEM) == []
    with pytest.raises(ConnectionRefusedError), socket.create_connection((installed.cluster.node_address, PORT)):
        pass

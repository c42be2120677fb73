"""The chart, installed by helm in a cluster that runs pods: a member runs nginx, and pods end under load."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest

from schemas.manifest import Manifest
from tests.containers import engine
from tests.containers.cluster.pod_cluster import PodCluster
from tests.containers.documented import commands
from tests.containers.in_cluster import MANIFESTS, SECONDS, SYSTEM, Installed
from tests.containers.load import Load
from tests.e2e.fleet import Failed, until
from tests.support.helm import CHARTS, HELM

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
ONCE: Final = ("autoscaler", "estimator", "failover", "janitor", "networking", "search", "webhook")
VALUES: Final = "--set controlPlane.kind=external " + " ".join(f"--set workloads.{name}.replicas=1" for name in ONCE)
"""Services beside the way of an object have one instance, for the sake of time."""
PULLED: Final = "member3"
REGISTERED: Final = "member4"
LOG: Final = f"nats.{SYSTEM}.svc:4222"
ADDONS: Final = {
    "karmada-descheduler": "disabled",
    "karmada-metrics-adapter": "enabled",
    "karmada-scheduler-estimator": "enabled",
    "karmada-search": "enabled",
}
PROXY: Final = "/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy"
ONLY_HERE: Final = """
K="kubectl -n fleetlog-system create secret generic"
$K control-authority --from-file=deploy/authority
$K control-front-proxy --from-file=deploy/authority/front-proxy
$K control-log --from-file=deploy/ca.crt --from-file=deploy/hub.password \\
  --from-file=deploy/secrets-keys.json
"""


@pytest.fixture(scope="module")
def installed(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The chart with the embedded API server as control plane."""
    if not HELM.exists():
        pytest.skip("helm has no package for this platform")
    if not engine.has_image(engine.NATS_POD_IMAGE):
        pytest.skip(f"the engine has no image {engine.NATS_POD_IMAGE}; {engine.PREPARE}")
    place = tmp_path_factory.mktemp("pods")
    with PodCluster(place, "fleetlog-test-pods") as cluster:
        made = Installed(cluster, place)
        script = commands("## In Kubernetes\n", "# only for the overlay:")
        made.shell(script + ONLY_HERE)
        began = time.monotonic()
        # What is a neighbour of the installation begins with it.
        for name in ("control-plane.yaml", "member.yaml"):
            made.host.apply(MANIFESTS / name)
        chart = CHARTS / "fleetlog"
        made.shell(
            "kubectl label namespace fleetlog-system pod-security.kubernetes.io/enforce=restricted\n"
            f"helm upgrade --install fleetlog {chart} --namespace fleetlog-system {VALUES}"
        )
        until("the control plane is there", lambda: cluster.address_of("kube-apiserver", SYSTEM), SECONDS)
        print(f"control plane ready: {time.monotonic() - began:.1f} s")
        made.shell(f"fleetlog crds apply --kubeconfig {made.control.kubeconfig}")
        made.control.run("apply", "-f", str(place / "deploy/aggregation.json"))
        try:
            made.until_available()
        except Failed:
            print(made.host.run("get", "pods", "-A", "-o", "wide"))
            raise
        print(f"start to ready: {time.monotonic() - began:.1f} s; {cluster.counted()}")
        yield made


@pytest.fixture(scope="module")
def member(installed: Installed) -> str:
    """A push member, joined by command."""
    return installed.join()


def was_reloaded(installed: Installed, pod: str) -> bool:
    """Whether the container beside a server of the log says that it had the server read its files again."""
    return b"files changed; nats-server" in installed.cluster.containers_of(pod, SYSTEM)["reloader"].logs()


def test_every_pod_runs_as_its_manifest_says(installed: Installed) -> None:
    pods = installed.host.items("pods", SYSTEM)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    for pod in pods:
        running = installed.cluster.containers_of(pod["metadata"]["name"], SYSTEM)
        assert running.keys() == {one["name"] for one in pod["spec"]["containers"]}
        for held in (one.attrs for one in running.values()):
            assert (held["Config"]["User"], held["HostConfig"]["ReadonlyRootfs"]) == ("65532:65532", True)
            assert held["HostConfig"]["CapDrop"] == ["ALL"]
            assert held["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]


def test_nginx_runs_in_a_member(installed: Installed, member: str) -> None:
    installed.runs_nginx(member)
    installed.enters_nginx(member)


def lose_each_server(installed: Installed, member: str) -> None:
    """Delete each server of the log while objects are written for a push and a pull member; none may be lost."""

    def look(cluster: str, path: str) -> list[Manifest]:
        # The pull member is the cluster that the installation runs in.
        at, place = (installed.host, "") if cluster == PULLED else (installed.control, PROXY.format(cluster))
        items: list[Manifest] = json.loads(at.run("get", "--raw", f"{place}{path}"))["items"]
        return items

    for server in installed.pods("nats"):
        load = Load(installed.control, f"without-{server}", look, [member, PULLED])
        load.prepare()
        replaced = installed.uid(server)
        with load:
            load.until_acknowledged(3)
            installed.host.run("delete", "pod", server, "--wait=false", namespace=SYSTEM)
            until(
                f"{server} is replaced",
                lambda server=server, before=replaced: (
                    installed.uid(server) not in ("", before) and not installed.lacking()
                ),
                SECONDS,
            )
            load.until_acknowledged(3)
        load.until_everywhere()
        refused = f"; refused: {load.failures[:3]}" if load.failures else ""
        print(f"{server} deleted: {load.tried} writes, slowest {load.slowest:.2f} s{refused}")


def test_the_chart_of_an_agent_makes_a_member(installed: Installed, member: str) -> None:
    began = time.monotonic()
    servers = {pod: installed.uid(pod) for pod in installed.pods("nats")}
    script = commands("### The agent of a pull member\n")
    for words, here in (("k8s/charts", str(CHARTS)), ("control.kubeconfig", str(installed.control.kubeconfig))):
        script = script.replace(words, here)
    installed.shell(script.replace("LOG:4222", LOG))
    # The servers of the log do not know its account yet, and nobody but the second container of their pods tells them.
    written = time.monotonic()
    installed.shell(commands("### Reloads of the log\n").replace("HOST", str(installed.host.kubeconfig)))
    for pod in servers:
        until(f"{pod} has read the account", lambda pod=pod: was_reloaded(installed, pod), SECONDS)
    print(f"the servers of the log read an account: {time.monotonic() - written:.1f} s")
    installed.control.run("wait", "--for=condition=Ready", f"cluster/{PULLED}", "--timeout=90s")
    installed.runs_pods(PULLED)
    assert servers == {pod: installed.uid(pod) for pod in installed.pods("nats")}
    print(f"a pull member by the chart of its agent: {time.monotonic() - began:.1f} s")
    lose_each_server(installed, member)
    installed.shell(f"karmadactl --kubeconfig {installed.control.kubeconfig} unjoin {PULLED}")
    assert installed.host.get("deployment", "web", "default") is None
    installed.shell("helm uninstall agent --namespace karmada-system --wait")
    assert installed.host.names("deployments,secrets", "karmada-system") == []


def test_a_cluster_registers_itself(installed: Installed) -> None:
    began = time.monotonic()
    control = installed.control.kubeconfig
    told = installed.shell(f"karmadactl --kubeconfig {control} token create --print-register-command")
    installed.shell(f"{told.strip()} --cluster-name {REGISTERED}")
    installed.control.run("wait", "--for=condition=Ready", f"cluster/{REGISTERED}", "--timeout=90s")
    installed.runs_pods(REGISTERED)
    print(f"a cluster that registers itself: {time.monotonic() - began:.1f} s")
    host = installed.host.kubeconfig
    installed.shell(f"karmadactl --kubeconfig {control} unregister {REGISTERED} --cluster-kubeconfig {host}")
    assert installed.control.get("cluster", REGISTERED) is None
    assert installed.host.get("deployment", "web", "default") is None
    until("its pod is gone", lambda: not installed.host.names("pods", "karmada-system"), SECONDS)
    assert installed.host.names("deployments,secrets", "karmada-system") == []
    installed.until_shut_out(REGISTERED)


def test_addons_come_and_go(installed: Installed) -> None:
    began = time.monotonic()
    at = f"-n {SYSTEM} --karmada-kubeconfig {installed.control.kubeconfig}"
    assert installed.addons(at) == ADDONS
    installed.shell(f"karmadactl addons disable all --force {at}")
    for service in ("estimator", "search"):
        until(f"the pods of {service} are gone", lambda name=service: not installed.pods(name), SECONDS)
    assert set(installed.addons(at).values()) == {"disabled"}
    installed.shell(f"karmadactl addons enable all {at}")
    assert set(installed.addons(at).values()) == {"enabled"}
    assert [len(installed.pods(name)) for name in ("descheduler", "estimator", "search")] == [1, 1, 1]
    print(f"add-ons come and go: {time.monotonic() - began:.1f} s")


def test_nothing_is_lost_when_pods_end(installed: Installed, member: str) -> None:
    load = Load(installed.control, members=[member])
    load.prepare()
    executor = installed.pods("executor")[0]
    before = sum(installed.cluster.restarts().values())
    with load:
        load.until_acknowledged(3)
        installed.cluster.container(executor, SYSTEM).kill("SIGKILL")
        load.until_acknowledged(5)
        until("the executor is ready again", lambda: not installed.lacking(), SECONDS)
        load.until_acknowledged(3)
    load.until_everywhere()
    # The killed container was started again, and no other one had to be.
    assert sum(installed.cluster.restarts().values()) == before + 1, installed.cluster.unwell()

"""The chart, installed by helm in a cluster that runs pods: a member runs nginx, and pods end under load."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from k8s.shared import ROOT
from tests.containers import engine
from tests.containers.cluster.pod_cluster import PodCluster
from tests.containers.load import Load
from tests.e2e.fleet import EXAMPLES, Failed, Kubectl, until, until_equal
from tests.support.helm import CHARTS, HELM

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
SECONDS: Final = 300.0
"""How long something may take while three dozen containers start on two cores."""
SYSTEM: Final = "fleetlog-system"
SERVER: Final = "https://kube-apiserver:6443"
COMMANDS: Final = Path(sys.executable).parent
ONCE: Final = ("autoscaler", "estimator", "failover", "janitor", "networking", "search", "webhook")
VALUES: Final = " ".join(("--set controlPlane.kind=external", *(f"--set workloads.{name}.replicas=1" for name in ONCE)))
"""Services beside the way of an object have one instance, for the sake of time."""
ONLY_HERE: Final = """
K="kubectl -n fleetlog-system create secret generic"
$K control-authority --from-file=deploy/authority
$K control-front-proxy --from-file=deploy/authority/front-proxy
$K control-log --from-file=deploy/ca.crt --from-file=deploy/hub.password \\
  --from-file=deploy/secrets-keys.json
"""


class Installed:
    """An installation in a cluster, and the control plane that it works for."""

    def __init__(self, cluster: PodCluster, place: Path) -> None:
        self.cluster = cluster
        self.host = cluster.kubectl()
        self.place = place
        self._control: Kubectl | None = None

    @property
    def control(self) -> Kubectl:
        """kubectl at the control plane, as its administrator."""
        if self._control is None:
            address = self.cluster.address_of("kube-apiserver", SYSTEM)
            made = self.place / "control.kubeconfig"
            text = (self.place / "deploy/kubeconfigs/admin").read_text()
            assert SERVER in text
            made.write_text(text.replace(SERVER, f"https://{address}:6443"))
            self._control = Kubectl(made)
        return self._control

    def shell(self, script: str) -> str:
        """Run commands as a user would, in the directory of the installation; raises Failed."""
        told = {**os.environ, "KUBECONFIG": str(self.host.kubeconfig), "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-eu", "-c", script],
            cwd=self.place,
            env=told,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if done.returncode:
            raise Failed(f"{script}: {done.stderr}{done.stdout}; {self.cluster.unwell()}")
        return done.stdout

    def until_available(self) -> None:
        """Wait until every workload has what it asks for."""
        until_equal(f"workloads that lack pods ({self.cluster.unwell()})", self.lacking, {}, SECONDS)

    def lacking(self) -> dict[str, str]:
        """Workloads with fewer ready pods than they ask for, and what is known of these."""
        found = {}
        for one in self.host.items("deployments,statefulsets", SYSTEM):
            wanted, status = one["spec"]["replicas"], one.get("status") or {}
            if (have := status.get("availableReplicas", 0)) != wanted:
                found[one["metadata"]["name"]] = f"{have} of {wanted}"
        return found

    def uid(self, pod: str) -> str:
        """Which pod has this name now; empty for none."""
        found = self.host.get("pod", pod, SYSTEM)
        return str(found["metadata"]["uid"]) if found else ""

    def pods(self, workload: str) -> list[str]:
        """Names of the pods of a workload."""
        return self.host.names("pods", SYSTEM, f"app.kubernetes.io/name={workload}")


def documented(heading: str, end: str) -> str:
    """The first block of commands below a heading of docs/deploy.md, up to a line; nothing else of it is ever run."""
    _, found, section = (ROOT / "docs/deploy.md").read_text().partition(f"\n{heading}\n")
    section = section.partition("\n## ")[0]
    _, opened, block = section.partition("\n```sh\n")
    block, closed, _ = block.partition("\n```\n")
    script, stop, _ = block.partition(f"\n{end}\n")
    assert all((found, opened, closed, stop)), f"docs/deploy.md has no block with {end!r} below {heading!r}"
    return f"{script}\n"


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
        made.shell(documented("## In Kubernetes", "# only for the overlay:") + ONLY_HERE)
        began = time.monotonic()
        made.host.apply(Path(__file__).parent / "manifests/control-plane.yaml")
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
        print(f"start to ready: {time.monotonic() - began:.1f} s; pods: {len(cluster.containers())}")
        yield made


@pytest.fixture(scope="module")
def member(installed: Installed) -> str:
    """A push member, joined by command."""
    (pod,) = installed.host.names("pods", "default", "app=member1")
    until("member1 is ready", lambda: not _unready(installed.host), SECONDS)
    code, kubeconfig = installed.cluster.container(pod, "default").exec_run(["cat", "/data/kubeconfig"])
    assert code == 0, kubeconfig
    path = installed.place / "member1.kubeconfig"
    path.write_bytes(kubeconfig)
    installed.shell(f"karmadactl --kubeconfig {installed.control.kubeconfig} join member1 --cluster-kubeconfig {path}")
    installed.control.run("wait", "--for=condition=Ready", "cluster/member1", "--timeout=60s")
    return "member1"


def _unready(host: Kubectl) -> bool:
    (pod,) = host.items("pods", "default", "app=member1")
    return not any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"]["conditions"])


def test_every_pod_runs_as_its_manifest_says(installed: Installed) -> None:
    pods = installed.host.items("pods", SYSTEM)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    for pod in pods:
        held = installed.cluster.container(pod["metadata"]["name"], SYSTEM).attrs
        assert (held["Config"]["User"], held["HostConfig"]["ReadonlyRootfs"]) == ("65532:65532", True)
        assert held["HostConfig"]["CapDrop"] == ["ALL"]
        assert held["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]


def test_nginx_runs_in_a_member(installed: Installed, member: str) -> None:
    policy = yaml.safe_load((EXAMPLES / "nginx-propagation.yaml").read_text())
    policy["spec"]["placement"] = {"clusterAffinity": {"clusterNames": [member]}}
    installed.control.apply(EXAMPLES / "nginx-demo.yaml")
    installed.control.apply(policy)
    until_equal(
        "summed status",
        lambda: ((installed.control.get("deployment", "nginx") or {}).get("status") or {}).get("readyReplicas"),
        2,
    )
    assert "nginx" in installed.shell(f"karmadactl --kubeconfig {installed.control.kubeconfig} get pods -C {member}")


def test_nothing_is_lost_when_pods_end(installed: Installed, member: str) -> None:
    load = Load(installed.control, members=[member])
    load.prepare()
    (server, *_) = installed.pods("nats")
    executor = installed.pods("executor")[0]
    replaced = installed.uid(server)
    before = sum(installed.cluster.restarts().values())
    with load:
        load.until_acknowledged(3)
        began = time.monotonic()
        installed.host.run("delete", "pod", server, "--wait=false", namespace=SYSTEM)
        load.until_acknowledged(5)
        installed.cluster.container(executor, SYSTEM).kill("SIGKILL")
        load.until_acknowledged(5)
        until(
            "the server is replaced",
            lambda: installed.uid(server) not in ("", replaced) and not installed.lacking(),
            SECONDS,
        )
        print(f"a server of the log replaced: {time.monotonic() - began:.1f} s")
        load.until_acknowledged(3)
    load.until_everywhere()
    # The killed container was started again, and no other one had to be.
    assert sum(installed.cluster.restarts().values()) == before + 1, installed.cluster.unwell()

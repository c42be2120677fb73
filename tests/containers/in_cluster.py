"""An installation in a cluster that runs pods, used by commands as a user types them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import yaml

from schemas.manifest import Manifest
from services._rules.identity.accounts import agent_account
from services.cli.renewal.log_secrets import ACCOUNTS_KEY, ACCOUNTS_SECRET
from tests.containers import shell
from tests.containers.cluster.pod_cluster import PodCluster
from tests.e2e.fleet import EXAMPLES, Failed, Kubectl, until, until_equal

SECONDS: Final = 300.0
"""How long something may take while three dozen containers start on two cores."""
SYSTEM: Final = "fleetlog-system"
SERVER: Final = "https://kube-apiserver:6443"
MANIFESTS: Final = Path(__file__).parent / "manifests"


class Installed:
    """An installation in a cluster, and the control plane that it works for."""

    def __init__(
        self, cluster: PodCluster, place: Path, namespace: str = SYSTEM, kubeconfig: Path | None = None
    ) -> None:
        """`kubeconfig` is that of the control plane where one is written; else it is made of `fleetlog certs`."""
        self.cluster = cluster
        self.host = cluster.kubectl()
        self.place = place
        self.namespace = namespace
        self._kubeconfig = kubeconfig
        self._control: Kubectl | None = None

    @property
    def control(self) -> Kubectl:
        """kubectl at the control plane, as its administrator."""
        if self._control is None and self._kubeconfig:
            self._control = Kubectl(self._kubeconfig, cache=self.place / "kubectl-cache")
        if self._control is None:
            address = self.cluster.address_of("kube-apiserver", self.namespace)
            made = self.place / "control.kubeconfig"
            text = (self.place / "deploy/kubeconfigs/admin").read_text()
            assert SERVER in text
            made.write_text(text.replace(SERVER, f"https://{address}:6443"))
            self._control = Kubectl(made)
        return self._control

    def shell(self, script: str) -> str:
        """Run commands as a user would, in the directory of the installation; raises Failed."""
        try:
            return shell.run(script, self.place, shell.environment(self.host.kubeconfig), SECONDS)
        except Failed as error:
            raise Failed(f"{error}; {self.cluster.unwell()}") from error

    def until_available(self) -> None:
        """Wait until every workload has what it asks for."""
        until_equal(f"workloads that lack pods ({self.cluster.unwell()})", self.lacking, {}, SECONDS)

    def lacking(self) -> dict[str, str]:
        """Workloads with fewer ready pods than they ask for, and what is known of these."""
        found = {}
        for one in self.host.items("deployments,statefulsets", self.namespace):
            wanted, status = one["spec"]["replicas"], one.get("status") or {}
            if (have := status.get("availableReplicas", 0)) != wanted:
                found[one["metadata"]["name"]] = f"{have} of {wanted}"
        return found

    def uid(self, pod: str) -> str:
        """Which pod has this name now; empty for none."""
        found = self.host.get("pod", pod, self.namespace)
        return str(found["metadata"]["uid"]) if found else ""

    def pods(self, workload: str) -> list[str]:
        """Names of the pods of a workload."""
        return self.host.names("pods", self.namespace, f"app.kubernetes.io/name={workload}")

    def join(self) -> str:
        """Join a simulated member that runs as a pod beside the installation; its name."""
        self.host.apply(MANIFESTS / "member.yaml")
        (pod,) = until("member1 has a pod", lambda: self.host.names("pods", "default", "app=member1"), SECONDS)
        until("member1 is ready", lambda: _is_ready(self.host.get("pod", pod, "default")), SECONDS)
        code, kubeconfig = self.cluster.container(pod, "default").exec_run(["cat", "/data/kubeconfig"])
        assert code == 0, kubeconfig
        path = self.place / "member1.kubeconfig"
        path.write_bytes(kubeconfig)
        self.shell(f"karmadactl --kubeconfig {self.control.kubeconfig} join member1 --cluster-kubeconfig {path}")
        self.control.run("wait", "--for=condition=Ready", "cluster/member1", "--timeout=60s")
        return "member1"

    def until_shut_out(self, cluster: str) -> None:
        """Wait until the log's servers are told of no account of a cluster's agent any more."""

        def left() -> bool:
            secret = self.host.get("secret", ACCOUNTS_SECRET, self.namespace)
            assert secret is not None
            return agent_account(cluster) in base64.b64decode(secret["data"][ACCOUNTS_KEY]).decode()

        until_equal(f"the agent of {cluster} has an account", left, False, SECONDS)

    def addons(self, arguments: str) -> dict[str, str]:
        """The status of each add-on."""
        lines = self.shell(f"karmadactl addons list {arguments}").splitlines()
        _, *rows = (line.split("|")[1:3] for line in lines if line.startswith("|"))
        return {name.strip(): status.strip() for name, status in rows}

    def runs_nginx(self, member: str) -> None:
        """nginx comes to a simulated member, and its status comes back."""
        self.control.apply(_placed("nginx", member))
        self.control.apply(EXAMPLES / "nginx-demo.yaml")
        until_equal("summed status", lambda: self._ready("nginx"), 2)

    def enters_nginx(self, member: str) -> None:
        """Commands that look into a member see a pod of nginx there."""
        ours, at = f"karmadactl --kubeconfig {self.control.kubeconfig}", f"-C {member}"
        pod = self.shell(f"{ours} get pods {at} -o name").split()[0].removeprefix("pod/")
        assert pod in self.shell(f"{ours} get pods {at}")
        assert pod in self.shell(f"{ours} describe pod {pod} {at}")
        assert self.shell(f"{ours} logs {pod} {at} --tail 1")
        assert self.shell(f"{ours} exec {pod} {at} -- echo inside") == "inside\n"
        assert pod in self.shell(f"{ours} top pod {pod} {at}")

    def runs_pods(self, member: str) -> None:
        """A Deployment comes to the cluster that the installation runs in, as containers, and its status comes back."""
        self.control.apply(_placed("web", member))
        self.control.apply(MANIFESTS / "web.yaml")
        until_equal(f"what {member} says of its pods", lambda: self._ready("web"), 2, SECONDS)
        pods = self.host.names("pods", "default", "app=web")
        assert [self.cluster.container(pod, "default").status for pod in pods] == ["running"] * 2

    def _ready(self, deployment: str) -> int | None:
        status = (self.control.get("deployment", deployment, "default") or {}).get("status") or {}
        found: int | None = status.get("readyReplicas")
        return found


def _is_ready(pod: Manifest | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _placed(deployment: str, member: str) -> Manifest:
    """The policy of the example, for another Deployment and for one member."""
    policy: Manifest = yaml.safe_load((EXAMPLES / "nginx-propagation.yaml").read_text())
    policy["metadata"]["name"] = policy["spec"]["resourceSelectors"][0]["name"] = deployment
    policy["spec"]["placement"] = {"clusterAffinity": {"clusterNames": [member]}}
    return policy

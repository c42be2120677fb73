"""`karmadactl init`, `addons` and `deinit` on a host cluster (journeys 3 to 6, 8, 13 to 15).

The host is a simulated one, whose workloads become ready; an API server beside it stands for the one that runs there.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from services._kit.kube.client import KubeClient
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.hosting.host_manifests import BOOTSTRAPPING
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings
from tests.support.commands import run_command

PORTS = range(31000, 32700)


class Ground:
    """A host cluster, and the API server that stands for the one that runs in it."""

    def __init__(self, host: Running, client: KubeClient, authority: Path, port: int, place: Path) -> None:
        self.host = host
        self.client = client
        self.data = place / "data"
        self.port = port
        self._authority = authority

    async def karmadactl(self, *words: str) -> tuple[int, str, str]:
        """Run a command against the host; its code and what it says."""
        variables = {"KUBECONFIG": str(self.host.kubeconfig)}
        done = await asyncio.to_thread(run_command, "karmadactl", *words, **variables)
        return done.returncode, done.stdout, done.stderr

    async def addons(self, *words: str) -> dict[str, str]:
        """The status of each add-on."""
        code, out, err = await self.karmadactl("addons", "list", *words)
        assert code == 0, err
        _, *rows = (line.split("|")[1:3] for line in out.splitlines() if line.startswith("|"))
        return {name.strip(): status.strip() for name, status in rows}

    def arguments(self) -> list[str]:
        """Arguments of init that fit this ground."""
        return [
            *("--karmada-data", str(self.data), "--port", str(self.port)),
            *("--karmada-apiserver-advertise-address", "127.0.0.1"),
            # Here nothing answers for aggregated APIs.
            *("--wait-component-ready-timeout", "10"),
            *("--ca-cert-file", str(self._authority / "ca.crt"), "--ca-key-file", str(self._authority / "ca.key")),
        ]

    async def items(self, path: str) -> dict[str, Any]:
        """Objects of the host by name."""
        return {item["metadata"]["name"]: item for item in (await self.client.get(path)).get("items") or ()}


async def served_at_a_port_of_nodes(directory: Path) -> ApiServer:
    """A server that has found one of the ports that nodes may open free."""
    first = secrets.randbelow(len(PORTS))
    for port in (*PORTS[first:], *PORTS[:first]):
        server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=directory))
        try:
            await server.start(port=port)
        except OSError:
            await server.stop()
        else:
            return server
    raise AssertionError("no port is free")


@asynccontextmanager
async def running_host(directory: Path) -> AsyncIterator[Running]:
    """A simulated cluster of three nodes."""
    stop = asyncio.Event()
    ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
    settings = MemberSettings(name="host", nodes=3, cpu="64", memory="256Gi", data_dir=directory, ready_delay=0.0)
    task = asyncio.create_task(run_member(settings, ready.set_result, stop))
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield await ready
    finally:
        stop.set()
        await task


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A host, and beside it an API server whose authority init is given."""
    directory = tmp_path / "control"
    server = await served_at_a_port_of_nodes(directory)
    async with running_host(tmp_path / "host") as host:
        client = await KubeClient.from_kubeconfig(host.kubeconfig)
        try:
            yield Ground(host, client, directory, server.port, tmp_path)
        finally:
            await client.close()
            await server.stop()


def command_of(workload: dict[str, Any]) -> list[str]:
    """The command of a workload's container."""
    return list(workload["spec"]["template"]["spec"]["containers"][0]["command"])


async def install_by_file(ground: Ground) -> None:
    """What a file says counts before flags; images come from another registry, and etcd is one that is there."""
    config = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "KarmadaInitConfig",
        "spec": {
            "karmadaDataPath": str(ground.data),
            "etcd": {"external": {"endpoints": ["https://etcd.example:2379"], "keyPrefix": "/fleet"}},
            "components": {"karmadaScheduler": {"repository": "mine/fleetlog", "tag": "1", "replicas": 1}},
            "images": {"privateRegistry": {"registry": "registry.example"}},
        },
    }
    path = ground.data.with_name("init.yaml")
    path.write_text(json.dumps(config))
    words = ["--karmada-data", "/nowhere", "--karmada-scheduler-replicas", "3", "--cert-external-dns", "cp.example"]
    code, _, err = await ground.karmadactl("init", *ground.arguments(), *words, "--config", str(path))
    assert code == 0, err
    workloads = await ground.items("/apis/apps/v1/namespaces/karmada-system/deployments")
    scheduler = workloads["scheduler"]["spec"]
    assert scheduler["replicas"] == 1
    assert scheduler["template"]["spec"]["containers"][0]["image"] == "mine/fleetlog:1"
    detector = workloads["detector"]["spec"]["template"]["spec"]["containers"][0]
    assert detector["image"].startswith("registry.example/fleetlog:")
    assert "etcd" not in await ground.items("/apis/apps/v1/namespaces/karmada-system/statefulsets")
    flags = {"--etcd-servers=https://etcd.example:2379", "--etcd-prefix=/fleet"}
    assert flags < set(command_of(workloads["kube-apiserver"]))
    # The certificate of the API server is for the address that people use.
    pem = (ground.data / "pki" / "tls" / "kube-apiserver.crt").read_bytes()
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert "cp.example" in names.get_values_for_type(x509.DNSName)


async def test_control_plane_is_installed_removed_and_installed_again(ground: Ground) -> None:
    etcd = ["--etcd-extra-args", "--snapshot-count=5000,--heartbeat-interval=100", "--etcd-storage-mode", "emptyDir"]
    parts = ["--karmada-scheduler-replicas", "3", "--karmada-scheduler-priority-class", "system-cluster-critical"]
    code, out, err = await ground.karmadactl("init", *ground.arguments(), "--etcd-extra-args", "snapshot-count=5000")
    assert (code, out) == (1, "")
    assert "--etcd-extra-args 'snapshot-count=5000': use --KEY or --KEY=VALUE" in err
    words = [*ground.arguments(), *etcd, *parts, "-n", "fleet", "--crds", "x.tar.gz"]
    code, out, err = await ground.karmadactl("init", *words)
    assert code == 0, err
    assert "[init] nats: ready" in out
    assert out.index("[init] etcd: ready") < out.index("[init] kube-apiserver: ready") < out.index("[init] scheduler")
    assert "note: --crds: not needed" in err
    kubeconfig = ground.data / "karmada-apiserver.config"
    assert f"karmadactl --kubeconfig {kubeconfig} join NAME" in out
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    workloads = await ground.items("/apis/apps/v1/namespaces/fleet/deployments")
    assert workloads["scheduler"]["spec"]["replicas"] == 3
    assert workloads["descheduler"]["spec"]["replicas"] == 0
    classes = {name: one["spec"]["template"]["spec"]["priorityClassName"] for name, one in workloads.items()}
    assert (classes.pop("scheduler"), set(classes.values())) == ("system-cluster-critical", {"system-node-critical"})
    store = (await ground.items("/apis/apps/v1/namespaces/fleet/statefulsets"))["etcd"]
    assert {"--snapshot-count=5000", "--heartbeat-interval=100"} < set(command_of(store))
    assert any(flag.startswith("--data-dir=") for flag in command_of(store))
    assert {"name": "data", "emptyDir": {}} in store["spec"]["template"]["spec"]["volumes"]
    service = (await ground.items("/api/v1/namespaces/fleet/services"))["kube-apiserver"]["spec"]
    assert (service["type"], service["ports"][0]["nodePort"]) == ("NodePort", ground.port)
    secrets = await ground.items("/api/v1/namespaces/fleet/secrets")
    assert {"fleetlog-log", "fleetlog-etcd", "fleetlog-control-detector"} <= set(secrets)

    # The control plane has what members need, and its kubeconfig works.
    control = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        assert (await control.get("/apis/cluster.karmada.io/v1alpha1/clusters"))["items"] == []
        services = await control.get("/apis/apiregistration.k8s.io/v1/apiservices/v1alpha2.work.karmada.io")
        assert services["spec"]["service"]["port"] == 8443
    finally:
        await control.close()

    # The port is taken now, by another installation.
    code, _, err = await ground.karmadactl("init", *ground.arguments(), "-n", "other")
    assert code == 1
    assert f"port {ground.port} of the nodes belongs to Service fleet/kube-apiserver" in err

    listed = await ground.addons("-n", "fleet")
    assert listed == {
        "karmada-descheduler": "disabled",
        "karmada-metrics-adapter": "unknown",
        "karmada-scheduler-estimator": "enabled",
        "karmada-search": "enabled",
    }
    code, out, err = await ground.karmadactl("addons", "enable", "karmada-descheduler", "-n", "fleet")
    assert (code, out) == (0, "karmada-descheduler is enabled\n"), err
    assert (await ground.addons("-n", "fleet"))["karmada-descheduler"] == "enabled"
    code, out, err = await ground.karmadactl("addons", "disable", "karmada-descheduler", "-n", "fleet")
    assert code == 1
    assert "use --force" in err
    code, out, err = await ground.karmadactl("addons", "disable", "karmada-descheduler", "-n", "fleet", "--force")
    assert (code, out) == (0, "karmada-descheduler is disabled\n"), err

    # The metrics adapter is what the control plane asks the gateway for, which does not run here.
    adapter, reached = "karmada-metrics-adapter", ["-n", "fleet", "--karmada-kubeconfig", str(kubeconfig)]
    assert (await ground.addons(*reached))[adapter] == "unhealthy"
    code, out, err = await ground.karmadactl("addons", "disable", adapter, *reached, "--force")
    assert (code, out) == (0, f"{adapter} is disabled\n"), err
    assert (await ground.addons(*reached))[adapter] == "disabled"
    code, _, err = await ground.karmadactl("addons", "enable", adapter, *reached, "--apiservice-timeout", "0")
    assert code == 1
    assert "metrics of members: APIService v1beta1.metrics.k8s.io: " in err
    code, _, err = await ground.karmadactl("addons", "enable", adapter, "-n", "fleet")
    assert code == 1
    assert "give another with --karmada-kubeconfig" in err

    code, out, _ = await ground.karmadactl("deinit", "-n", "fleet", "--dry-run")
    assert code == 0
    assert "StatefulSet fleet/etcd deleted (dry run)" in out
    assert await ground.items("/apis/apps/v1/namespaces/fleet/deployments")
    code, _, err = await ground.karmadactl("deinit", "-n", "fleet")
    assert code == 1
    assert "use --force" in err
    code, out, err = await ground.karmadactl("deinit", "-n", "fleet", "--force", "--purge-namespace")
    assert code == 0, err
    assert "Secret fleet/fleetlog-log deleted\n" in out
    assert "Namespace fleet deleted\n" in out
    left = await ground.client.get(f"/apis/apps/v1/deployments?labelSelector={BOOTSTRAPPING}")
    assert not left["items"]
    assert (await ground.karmadactl("deinit", "-n", "fleet", "--force"))[0] == 1
    await install_by_file(ground)


async def test_part_that_does_not_get_ready_is_named(ground: Ground) -> None:
    # A claim of a class that nothing provides leaves its pod without a place.
    words = [*ground.arguments(), "--wait-component-ready-timeout", "1", "--etcd-node-selector-labels", "disk=none"]
    code, out, err = await ground.karmadactl("init", *words)
    assert code == 1, out
    assert "StatefulSet karmada-system/etcd" in err
    assert "not scheduled: " in err
    assert "--wait-component-ready-timeout" in err
    assert "[init] etcd" not in out

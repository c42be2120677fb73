"""What an installation on a host cluster consists of, as flags and files want it, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.apiserver.auth.certificate_authority import Authority
from services.cli.common.running import Failed
from services.cli.hosting.addon_options import ADDONS
from services.cli.hosting.addons import bordered, chosen, status_of
from services.cli.hosting.host_manifests import BOOTSTRAPPING, host_objects
from services.cli.hosting.host_secrets import host_secrets, make_files
from services.cli.hosting.init_file import with_file
from services.cli.hosting.init_options import (
    Certificates,
    Etcd,
    Host,
    Images,
    InitOptions,
    PartArguments,
    PartImages,
    PartReplicas,
    Place,
)
from services.cli.hosting.installing import node_addresses
from services.cli.hosting.rolling_out import all_ready, missing, reasons_of
from services.cli.hosting.wanted_installation import Wanted, checked, of_options
from services.cli.members.registration_objects import bootstrap_objects


def wanted(**given: Any) -> Wanted:
    """An installation with these options and the usual others."""
    return checked(of_options(InitOptions()._replace(**given)))


def workload(plan: Wanted, name: str) -> dict[str, Any]:
    """The spec of a Deployment or StatefulSet of an installation."""
    kinds = ("Deployment", "StatefulSet")
    found = [item for item in host_objects(plan) if item["kind"] in kinds and item["metadata"]["name"] == name]
    spec: dict[str, Any] = found[0]["spec"]
    return spec


def container(plan: Wanted, name: str) -> dict[str, Any]:
    """The container of a workload."""
    found: dict[str, Any] = workload(plan, name)["template"]["spec"]["containers"][0]
    return found


def test_every_object_is_labelled_and_in_the_namespace() -> None:
    objects = host_objects(wanted(host=Host(namespace="fleet")))
    assert {item["metadata"]["namespace"] for item in objects} == {"fleet"}
    assert all(BOOTSTRAPPING in item["metadata"]["labels"] for item in objects)
    assert "fleetlog-system" not in str(objects)
    assert "tls://nats-2.nats.fleet.svc:4222" in str(objects)


def test_agents_of_members_reach_the_log_by_a_port_of_the_nodes() -> None:
    plan = wanted(place=Place(log_port=30123), part_replicas=PartReplicas(controller_manager=3))
    found = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in host_objects(plan) if "spec" in item}
    assert found["Service", "log"]["ports"][0]["nodePort"] == 30123
    assert found["Service", "log"]["type"] == "NodePort"
    assert {"ports": [{"protocol": "TCP", "port": 4222}]} in found["NetworkPolicy", "nats"]["ingress"]
    # Each request is answered once.
    assert workload(plan, "agent-signer")["replicas"] == 1
    with pytest.raises(Failed, match="--log-port 32443: use another one than --port"):
        wanted(place=Place(log_port=32443))


def test_flags_reach_the_parts_they_are_named_for() -> None:
    plan = wanted(
        images=Images(registry="r.example/x", pull_secrets=("s",), pull_policy="Always"),
        part_images=PartImages(scheduler="mine:2"),
        part_replicas=PartReplicas(scheduler=3, controller_manager=1),
        part_arguments=PartArguments(
            etcd=("--snapshot-count=5000", "--data-dir=/other"), scheduler=("--log-level=debug", "--quick")
        ),
    )
    assert workload(plan, "scheduler")["replicas"] == 3
    assert workload(plan, "detector")["replicas"] == 1
    assert workload(plan, "nats")["replicas"] == 3
    assert container(plan, "scheduler")["image"] == "mine:2"
    assert container(plan, "nats")["image"].startswith("r.example/x/nats:")
    assert container(plan, "etcd")["image"].startswith("r.example/x/etcd:")
    log = workload(plan, "nats")["template"]["spec"]["containers"]
    assert [one["image"].rpartition(":")[0] for one in log] == ["r.example/x/nats", "r.example/x/fleetlog"]
    assert {one["imagePullPolicy"] for one in log} == {"Always"}
    (job,) = (one for one in host_objects(plan) if one["kind"] == "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["containers"][0]["image"], pod["imagePullSecrets"]) == ("r.example/x/fleetlog:0.1.0", [{"name": "s"}])
    assert workload(plan, "detector")["template"]["spec"]["imagePullSecrets"] == [{"name": "s"}]
    program, *flags = container(plan, "etcd")["command"]
    assert (program, flags) == ("etcd", sorted(flags))
    assert {"--snapshot-count=5000", "--data-dir=/other", "--client-cert-auth"} <= set(flags)
    assert "--data-dir=/data" not in flags
    settings = {one["name"]: one.get("value") for one in container(plan, "scheduler")["env"]}
    assert (settings["FLEETLOG_LOG_LEVEL"], settings["FLEETLOG_QUICK"]) == ("debug", "true")


@pytest.mark.parametrize(
    ("images", "image"),
    [
        (
            Images(mirror="cn", kube_tag="v1.35.2"),
            "registry.cn-hangzhou.aliyuncs.com/google_containers/kube-apiserver:v1.35.2",
        ),
        (Images(kube_registry="k.example"), "k.example/kube-apiserver:v1.31.4"),
        (Images(registry="r", kube_registry="k"), "r/kube-apiserver:v1.31.4"),
        (Images(), "registry.k8s.io/kube-apiserver:v1.31.4"),
    ],
)
def test_image_of_the_api_server_comes_from_its_registry(images: Images, image: str) -> None:
    assert container(wanted(images=images), "kube-apiserver")["image"] == image


def test_store_is_placed_where_it_is_wanted() -> None:
    claim = wanted(etcd=Etcd(mode="PVC", size="9Gi", storage_class="fast", nodes=("disk=ssd",)))
    spec = workload(claim, "etcd")
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"] == {"requests": {"storage": "9Gi"}}
    assert spec["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "volumeClaimTemplates" not in workload(wanted(etcd=Etcd(mode="emptyDir")), "etcd")
    assert "etcd keeps its data in a claim" in wanted(etcd=Etcd(mode="hostPath")).notes[0]


def test_etcd_that_is_there_is_used_and_none_installed(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    files = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    etcd = Etcd(servers=("https://e1:2379", "https://e2:2379"), prefix="/fleet", **files)
    plan = wanted(etcd=etcd, place=Place(data=tmp_path / "data"))
    assert not [item for item in host_objects(plan) if item["metadata"]["name"] == "etcd"]
    command = container(plan, "kube-apiserver")["command"]
    assert "--etcd-servers=https://e1:2379,https://e2:2379" in command
    assert "--etcd-keyfile=/tls/external-etcd/tls.key" in command
    assert "--etcd-prefix=/fleet" in command
    assert len([flag for flag in command if flag.startswith("--etcd-cafile")]) == 1
    make_files(plan, ["10.0.0.1"])
    secrets = {item["metadata"]["name"]: item["stringData"] for item in host_secrets(plan)}
    assert secrets["fleetlog-external-etcd"] == {"ca.crt": "ca", "tls.crt": "cert", "tls.key": "key"}
    assert "fleetlog-etcd" not in secrets


def test_pods_mount_only_secrets_that_are_written(tmp_path: Path) -> None:
    plan = wanted(place=Place(data=tmp_path / "data"))
    make_files(plan, ["10.0.0.1"])
    written = {item["metadata"]["name"]: item["stringData"] for item in host_secrets(plan)}
    for item in host_objects(plan):
        spec = item.get("spec") or {}
        spec = (spec.get("jobTemplate") or {}).get("spec") or spec
        pod = (spec.get("template") or {}).get("spec") or {}
        for volume in pod.get("volumes") or ():
            mounted = volume.get("secret") or {}
            name = mounted.get("secretName")
            assert name is None or name in written, (item["metadata"]["name"], name)
            assert {each["key"] for each in mounted.get("items") or ()} <= written.get(name, {}).keys()
    assert all(written.values())


def test_key_of_a_given_authority_stays_out_of_the_cluster(tmp_path: Path) -> None:
    own = Authority(tmp_path / "own")
    own.load()
    given = Certificates(ca_cert=str(tmp_path / "own/ca.crt"), ca_key=str(tmp_path / "own/ca.key"))
    plan = wanted(place=Place(data=tmp_path / "data"), certificates=given)
    assert any("fleetlog-authority" in note for note in plan.notes)
    make_files(plan, ["10.0.0.1"])
    secrets = host_secrets(plan)
    assert "fleetlog-authority" not in {item["metadata"]["name"] for item in secrets}
    assert (tmp_path / "own/ca.key").read_text() not in str(secrets)


def test_directory_with_other_files_is_never_emptied(tmp_path: Path) -> None:
    plan = wanted(place=Place(data=tmp_path))
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(Failed, match=r"files that no installation wrote \(thesis.txt\)"):
        make_files(plan, ["10.0.0.1"])
    assert (tmp_path / "thesis.txt").exists()
    (tmp_path / "thesis.txt").unlink()
    first = make_files(plan, ["10.0.0.1"]).read_text()
    # What an earlier init left is made anew.
    assert make_files(plan, ["10.0.0.1"]).read_text() != first


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"place": Place(port=80)}, "--port 80"),
        ({"place": Place(wait=-1)}, "--wait-component-ready-timeout"),
        ({"place": Place(address="cp.example")}, "is no IP address"),
        ({"host": Host(namespace="No_Name")}, "--namespace"),
        ({"images": Images(pull_policy="Sometimes")}, "--image-pull-policy"),
        ({"images": Images(mirror="nl")}, "--kube-image-mirror-country"),
        ({"certificates": Certificates(ca_cert="x")}, "belong together"),
        ({"certificates": Certificates(validity="1m")}, "--cert-validity-period"),
        ({"certificates": Certificates(names=("a b",))}, "--cert-external-dns"),
        ({"etcd": Etcd(mode="tape")}, "--etcd-storage-mode"),
        ({"etcd": Etcd(servers=("https://e",), mode="PVC")}, "not an external one"),
        ({"etcd": Etcd(servers=("e:2379",))}, "is no URL"),
        ({"etcd": Etcd(prefix="/x")}, "--external-etcd-servers is missing"),
        ({"etcd": Etcd(nodes=("disk",))}, "use KEY=VALUE"),
        ({"part_replicas": PartReplicas(etcd=3)}, "--etcd-replicas"),
        ({"part_arguments": PartArguments(etcd=("snapshot-count=1",))}, "--etcd-extra-args 'snapshot-count=1'"),
    ],
)
def test_impossible_installation_is_refused_with_the_flag(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Failed) as refused:
        wanted(**given)
    assert said in str(refused.value)


def test_parts_that_are_not_here_are_said() -> None:
    notes = wanted(part_replicas=PartReplicas(kube_controller_manager=2), place=Place(crds="x.tgz")).notes
    assert any("karmada-kube-controller-manager" in note for note in notes)
    assert any("--crds" in note for note in notes)


def filed(tmp_path: Path, spec: dict[str, Any], **more: Any) -> Wanted:
    """What is wanted with a file of this content."""
    path = tmp_path / "init.yaml"
    head = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "KarmadaInitConfig"}
    path.write_text(yaml.safe_dump({**head, "spec": spec, **more}))
    return with_file(of_options(InitOptions()), path)


def test_whole_file_is_understood(tmp_path: Path) -> None:
    part = {"repository": "r/x", "tag": "1", "replicas": 2, "nodeSelector": {"a": "b"}, "extraArgs": [{"name": "v"}]}
    plan = filed(
        tmp_path,
        {
            "certificates": {"externalDNS": ["cp.example"], "externalIP": ["10.0.0.9"], "validityPeriod": "48h"},
            "etcd": {"local": {"storageMode": "PVC", "pvcSize": "9Gi", "nodeSelectorLabels": "a=b,c=d"}},
            "hostCluster": {"kubeconfig": "/k", "context": "c", "domain": "cluster.local"},
            "images": {"kubeImageTag": "v1.35.2", "imagePullSecrets": ["s"], "privateRegistry": {"registry": "r"}},
            "components": {
                "karmadaAPIServer": {
                    "advertiseAddress": "10.0.0.1",
                    "networking": {"namespace": "fleet", "port": 32000},
                    "serviceAnnotations": {"x": "y"},
                },
                "karmadaWebhook": part,
            },
            "karmadaDataPath": "/data",
            "waitComponentReadyTimeout": 7,
        },
    )
    assert (plan.kubeconfig, plan.context, plan.namespace, plan.port) == ("/k", "c", "fleet", 32000)
    assert (plan.data, plan.pki, plan.seconds, plan.address) == (Path("/data"), Path("/data/pki"), 7.0, "10.0.0.1")
    assert (plan.lifetime, plan.names, plan.addresses) == (timedelta(hours=48), ("cp.example",), ("10.0.0.9",))
    assert (plan.etcd.size, plan.etcd.nodes, plan.images.kube_tag) == ("9Gi", ("a=b", "c=d"), "v1.35.2")
    webhook = checked(plan).parts["karmada-webhook"]
    assert (webhook.image, webhook.replicas, webhook.pod) == ("r/x:1", 2, {"nodeSelector": {"a": "b"}})
    assert webhook.arguments == ("--v=",)
    assert plan.parts["karmada-apiserver"].service_annotations == {"x": "y"}


@pytest.mark.parametrize(
    ("spec", "more", "said"),
    [
        ({"karmadaDatapath": "/x"}, {}, "karmadaDatapath"),
        ({"etcd": {"local": {}, "external": {}}}, {}, "exclude each other"),
        ({"components": {"karmadaScheduler": {"repository": "x"}}}, {}, "belong together"),
        ({"waitComponentReadyTimeout": "soon"}, {}, r"waitComponentReadyTimeout"),
        ({}, {"kind": "Deployment"}, "expected a KarmadaInitConfig"),
    ],
)
def test_unusable_file_is_refused_with_the_field(
    tmp_path: Path, spec: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(Failed, match=said):
        filed(tmp_path, spec, **more)
    with pytest.raises(Failed, match="No such file"):
        with_file(of_options(InitOptions()), tmp_path / "gone.yaml")


def test_workload_is_ready_once_its_newest_instances_are() -> None:
    meta, spec = {"generation": 2}, {"replicas": 2}
    assert "not been seen" in missing({"metadata": meta, "spec": spec, "status": {"observedGeneration": 1}})
    status = {"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 2}
    assert missing({"metadata": meta, "spec": spec, "status": status})
    assert not missing({"metadata": meta, "spec": spec, "status": {**status, "updatedReplicas": 2}})


def test_reasons_of_pods_are_told_once() -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    pods = [{"status": {"containerStatuses": [waiting]}}] * 2 + [{"status": {"conditions": [unplaced]}}, {}]
    assert reasons_of(pods) == ["ImagePullBackOff: no such image", "not scheduled: 0/3 nodes"]


class Nodes:
    """A host that lists nodes."""

    def __init__(self, *nodes: tuple[str, bool]) -> None:
        self._nodes = nodes

    async def get(self, _: str) -> dict[str, Any]:
        """The nodes: their address and whether they lead."""
        role = {"node-role.kubernetes.io/control-plane": ""}
        return {
            "items": [
                {
                    "metadata": {"labels": role if leads else {}},
                    "status": {"addresses": [{"type": "InternalIP", "address": address}] if address else []},
                }
                for address, leads in self._nodes
            ]
        }


async def test_addresses_are_those_of_leading_nodes_first() -> None:
    workers = [(f"10.0.0.{number}", False) for number in range(1, 5)]
    assert await node_addresses(Nodes(*workers)) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]  # type: ignore[arg-type]
    assert await node_addresses(Nodes(*workers, ("10.0.0.9", True))) == ["10.0.0.9"]  # type: ignore[arg-type]
    with pytest.raises(Failed, match="--karmada-apiserver-advertise-address"):
        await node_addresses(Nodes(("", False)))  # type: ignore[arg-type]


def test_members_may_read_where_the_control_plane_is() -> None:
    found = {(item["kind"], item["metadata"]["name"]): item for item in bootstrap_objects("https://cp:32443", "Q0E=")}
    info = yaml.safe_load(found["ConfigMap", "cluster-info"]["data"]["kubeconfig"])
    assert info["clusters"] == [
        {"name": "", "cluster": {"server": "https://cp:32443", "certificate-authority-data": "Q0E="}}
    ]
    reader = found["RoleBinding", "system:karmada:bootstrap-signer-clusterinfo"]
    assert reader["subjects"][0]["name"] == "system:anonymous"


def test_add_ons_are_chosen_by_name_or_all() -> None:
    assert chosen(["all"]) == list(ADDONS)
    assert chosen(["karmada-search", "karmada-search"]) == ["karmada-search"]
    for words, said in ((["karmada-x"], "no add-on karmada-x"), ([], "which")):
        with pytest.raises(Failed, match=said):
            chosen(words)


def test_status_of_an_add_on_is_that_of_its_workload() -> None:
    ready = {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1}
    found: dict[str, Any] = {"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": ready}
    assert status_of(found) == "enabled"
    assert status_of({**found, "status": {}}) == "unhealthy"
    assert status_of({**found, "spec": {"replicas": 0}}) == "disabled"
    assert status_of(None) == "disabled"
    assert bordered(("A", "B"), [("one", "x")]) == "+-----+---+\n| A   | B |\n+-----+---+\n| one | x |\n+-----+---+\n"


class _Cluster:
    """Workloads of which some get ready, each only once another one is."""

    def __init__(self, after: dict[str, str]) -> None:
        self._after = after
        self.ready: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if "labelSelector" in name:
            return {"items": []}
        done = name in self._after and self._after[name] in ("", *self.ready)
        status = {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": int(done)}
        return {"metadata": {}, "spec": {}, "status": status}


async def test_parts_are_waited_for_together() -> None:
    cluster = _Cluster({"a": "c", "b": "", "c": "b"})
    parts = [("Deployment", "a"), ("Deployment", "b"), ("StatefulSet", "c")]
    await all_ready(cluster, "fleet", parts, 60.0, became_ready=cluster.ready.append)  # type: ignore[arg-type]
    assert cluster.ready == ["b", "c", "a"]


async def test_parts_that_are_late_are_named() -> None:
    cluster = _Cluster({"b": ""})
    parts = [("Deployment", name) for name in "abcde"]
    with pytest.raises(
        Failed, match=r"Deployment fleet/a: 0 of 1 .* within 0.1 s; a, c, d and 1 more are not ready; see"
    ):
        await all_ready(cluster, "fleet", parts, 0.1, became_ready=cluster.ready.append)  # type: ignore[arg-type]
    assert cluster.ready == ["b"]

"""Options of `karmadactl init`: those of Karmada's, for the parts that are here, too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from services.cli.common.command import split_commas

COMPONENTS: Final = (
    "etcd",
    "karmada-apiserver",
    "karmada-scheduler",
    "karmada-kube-controller-manager",
    "karmada-controller-manager",
    "karmada-webhook",
    "karmada-aggregated-apiserver",
)
"""Parts of Karmada that flags are named for, in the order of the fields below."""
HOST_NAMESPACE: Final = "karmada-system"


class Host(NamedTuple):
    """The host cluster; empty texts mean the usual place."""

    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the host cluster (or KUBECONFIG).")] = (
        ""
    )
    context: Annotated[str, typer.Option("--context", help="Context of that kubeconfig to use.")] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the control plane in the host cluster.")
    ] = HOST_NAMESPACE


class Place(NamedTuple):
    """Where the control plane is reached, and where its files are written."""

    port: Annotated[int, typer.Option("--port", "-p", help="Port of the nodes for the API server.")] = 32443
    log_port: Annotated[int, typer.Option("--log-port", help="Port of the nodes for agents of pull members.")] = 32422
    data: Annotated[
        Path, typer.Option("--karmada-data", "-d", help="Directory of the kubeconfig; what an earlier init left goes.")
    ] = Path("/etc/karmada")
    pki: Annotated[
        Path | None, typer.Option("--karmada-pki", help="Directory of certificates and keys; pki in the one above.")
    ] = None
    address: Annotated[
        str,
        typer.Option("--karmada-apiserver-advertise-address", help="Address of the API server; a node's if empty."),
    ] = ""
    domain: Annotated[
        str, typer.Option("--host-cluster-domain", help="Last part of the names of the host's Services.")
    ] = "cluster.local"
    crds: Annotated[str, typer.Option("--crds", help="Not needed: the definitions come with this command.")] = ""
    config: Annotated[
        Path | None, typer.Option("--config", help="File with a KarmadaInitConfig; what it says counts before flags.")
    ] = None
    wait: Annotated[
        int,
        typer.Option("--wait-component-ready-timeout", help="Seconds that each part has to get ready; 0: for ever."),
    ] = 120


class Images(NamedTuple):
    """Where images come from; empty texts mean those of this release."""

    registry: Annotated[str, typer.Option("--private-image-registry", help="Registry in place of all others.")] = ""
    pull_policy: Annotated[
        str, typer.Option("--image-pull-policy", help="When images are pulled: Always, IfNotPresent or Never.")
    ] = "IfNotPresent"
    pull_secrets: Annotated[
        tuple[str, ...], typer.Option("--image-pull-secrets", help="Secrets for pulling images."), split_commas
    ] = ()
    kube_registry: Annotated[str, typer.Option("--kube-image-registry", help="Registry of kube-apiserver.")] = ""
    kube_tag: Annotated[str, typer.Option("--kube-image-tag", help="Version of kube-apiserver.")] = ""
    mirror: Annotated[
        str, typer.Option("--kube-image-mirror-country", help="cn or global: the registry of kube-apiserver.")
    ] = ""


class Certificates(NamedTuple):
    """Further names in certificates, how long they are good, and an authority of one's own."""

    addresses: Annotated[
        tuple[str, ...], typer.Option("--cert-external-ip", help="Further addresses of the API server."), split_commas
    ] = ()
    names: Annotated[
        tuple[str, ...], typer.Option("--cert-external-dns", help="Further names of the API server."), split_commas
    ] = ()
    validity: Annotated[str, typer.Option("--cert-validity-period", help="How long certificates are good.")] = "8760h"
    ca_cert: Annotated[str, typer.Option("--ca-cert-file", help="Certificate of the authority to use.")] = ""
    ca_key: Annotated[str, typer.Option("--ca-key-file", help="Its key (elliptic curve).")] = ""


class Etcd(NamedTuple):
    """The store of the API server: its own, or one that is there."""

    mode: Annotated[
        str, typer.Option("--etcd-storage-mode", help="PVC (a claim) or emptyDir; hostPath becomes a claim.")
    ] = ""
    data: Annotated[str, typer.Option("--etcd-data", help="Directory of a node, for hostPath: not used.")] = ""
    nodes: Annotated[
        tuple[str, ...],
        typer.Option("--etcd-node-selector-labels", help="Labels (KEY=VALUE) of the nodes of etcd."),
        split_commas,
    ] = ()
    size: Annotated[str, typer.Option("--etcd-pvc-size", help="Size of the claim.")] = ""
    storage_class: Annotated[
        str, typer.Option("--storage-classes-name", help="Class of the claim; the host's default if empty.")
    ] = ""
    servers: Annotated[
        tuple[str, ...],
        typer.Option("--external-etcd-servers", help="URLs of an etcd that is there; none is installed then."),
        split_commas,
    ] = ()
    ca: Annotated[str, typer.Option("--external-etcd-ca-cert-path", help="Its authority.")] = ""
    cert: Annotated[str, typer.Option("--external-etcd-client-cert-path", help="Certificate to show it.")] = ""
    key: Annotated[str, typer.Option("--external-etcd-client-key-path", help="Key of that certificate.")] = ""
    prefix: Annotated[str, typer.Option("--external-etcd-key-prefix", help="Prefix of the keys in it.")] = ""


def _image(component: str) -> Any:
    return typer.Option(f"--{component}-image", help=f"Image of {component}.")


def _replicas(component: str) -> Any:
    return typer.Option(f"--{component}-replicas", help=f"Instances of {component}; those of its manifest if 0.", min=0)


def _priority(component: str) -> Any:
    return typer.Option(f"--{component}-priority-class", help=f"Priority class of {component}.")


def _arguments(component: str) -> Any:
    return typer.Option(f"--{component}-extra-args", help=f"Further arguments of {component} (--KEY[=VALUE]).")


_CRITICAL: Final = "system-node-critical"


class PartImages(NamedTuple):
    """Images by part."""

    etcd: Annotated[str, _image(COMPONENTS[0])] = ""
    apiserver: Annotated[str, _image(COMPONENTS[1])] = ""
    scheduler: Annotated[str, _image(COMPONENTS[2])] = ""
    kube_controller_manager: Annotated[str, _image(COMPONENTS[3])] = ""
    controller_manager: Annotated[str, _image(COMPONENTS[4])] = ""
    webhook: Annotated[str, _image(COMPONENTS[5])] = ""
    aggregated_apiserver: Annotated[str, _image(COMPONENTS[6])] = ""


class PartReplicas(NamedTuple):
    """Instances by part; 0 leaves what the manifests say."""

    etcd: Annotated[int, _replicas(COMPONENTS[0])] = 0
    apiserver: Annotated[int, _replicas(COMPONENTS[1])] = 0
    scheduler: Annotated[int, _replicas(COMPONENTS[2])] = 0
    kube_controller_manager: Annotated[int, _replicas(COMPONENTS[3])] = 0
    controller_manager: Annotated[int, _replicas(COMPONENTS[4])] = 0
    webhook: Annotated[int, _replicas(COMPONENTS[5])] = 0
    aggregated_apiserver: Annotated[int, _replicas(COMPONENTS[6])] = 0


class PartPriorities(NamedTuple):
    """Priority classes by part."""

    etcd: Annotated[str, _priority(COMPONENTS[0])] = _CRITICAL
    apiserver: Annotated[str, _priority(COMPONENTS[1])] = _CRITICAL
    scheduler: Annotated[str, _priority(COMPONENTS[2])] = _CRITICAL
    kube_controller_manager: Annotated[str, _priority(COMPONENTS[3])] = _CRITICAL
    controller_manager: Annotated[str, _priority(COMPONENTS[4])] = _CRITICAL
    webhook: Annotated[str, _priority(COMPONENTS[5])] = _CRITICAL
    aggregated_apiserver: Annotated[str, _priority(COMPONENTS[6])] = _CRITICAL


class PartArguments(NamedTuple):
    """Further arguments by part."""

    etcd: Annotated[tuple[str, ...], _arguments(COMPONENTS[0]), split_commas] = ()
    apiserver: Annotated[tuple[str, ...], _arguments(COMPONENTS[1]), split_commas] = ()
    scheduler: Annotated[tuple[str, ...], _arguments(COMPONENTS[2]), split_commas] = ()
    kube_controller_manager: Annotated[tuple[str, ...], _arguments(COMPONENTS[3]), split_commas] = ()
    controller_manager: Annotated[tuple[str, ...], _arguments(COMPONENTS[4]), split_commas] = ()
    webhook: Annotated[tuple[str, ...], _arguments(COMPONENTS[5]), split_commas] = ()
    aggregated_apiserver: Annotated[tuple[str, ...], _arguments(COMPONENTS[6]), split_commas] = ()


class InitOptions(NamedTuple):
    """Everything that `init` is told on the command line."""

    host: Host = Host()
    place: Place = Place()
    images: Images = Images()
    certificates: Certificates = Certificates()
    etcd: Etcd = Etcd()
    part_images: PartImages = PartImages()
    part_replicas: PartReplicas = PartReplicas()
    part_priorities: PartPriorities = PartPriorities()
    part_arguments: PartArguments = PartArguments()


class DeinitOptions(NamedTuple):
    """What `deinit` removes, and whether it asks before."""

    host: Host = Host()
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask before.")] = False
    purge: Annotated[bool, typer.Option("--purge-namespace", help="Delete the namespace, too.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")] = False

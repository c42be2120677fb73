"""Decides what `karmadactl init` installs: flags, and a KarmadaInitConfig before them, checked as a whole."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.manifest import Manifest
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed
from services.cli.hosting.init_options import COMPONENTS, Etcd, Images, InitOptions
from services.cli.members.reached_addresses import is_address

NODE_PORTS: Final = range(30000, 32768)
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MODES: Final = ("", "PVC", "emptyDir", "hostPath")
_MIRRORS: Final = {"": "", "cn": "registry.cn-hangzhou.aliyuncs.com/google_containers", "global": "registry.k8s.io"}
_ARGUMENT: Final = re.compile(r"--[a-zA-Z0-9][-_.a-zA-Z0-9]*(=.*)?", re.DOTALL)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HOST_NAME: Final = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*=[-A-Za-z0-9_.]*")


class Part(Struct, frozen=True):
    """What is asked of one part; what is empty stays as the manifests say it."""

    image: str = ""
    replicas: int = 0
    priority: str = ""
    arguments: tuple[str, ...] = ()
    pod: Manifest = {}
    """Fields of its pods (nodeSelector, tolerations, affinity) as they are."""
    resources: Manifest = {}
    service_annotations: Manifest = {}


class Wanted(Struct, frozen=True):
    """A whole installation."""

    kubeconfig: str
    context: str
    namespace: str
    port: int
    log_port: int
    data: Path
    pki: Path
    address: str
    seconds: float
    images: Images
    addresses: tuple[str, ...]
    names: tuple[str, ...]
    lifetime: timedelta
    authority: tuple[str, str]
    etcd: Etcd
    parts: dict[str, Part]
    notes: tuple[str, ...] = ()
    """What was asked for and means nothing here, for the person who asked."""


def of_options(options: InitOptions) -> Wanted:
    """What the flags say; raises Failed for what is no duration. `checked` judges the rest."""
    host, place, certificates = options.host, options.place, options.certificates
    parts = {
        name: Part(
            options.part_images[index],
            options.part_replicas[index],
            options.part_priorities[index],
            options.part_arguments[index],
        )
        for index, name in enumerate(COMPONENTS)
    }
    notes = []
    if place.crds:
        notes.append("--crds: not needed, the definitions come with this command")
    if place.domain != "cluster.local":
        notes.append("--host-cluster-domain: not needed, no name here ends with it")
    if certificates.ca_key:
        notes.append(
            "--ca-key-file: the key is not put into the cluster; certificates renew by themselves once Secret "
            "fleetlog-authority has it (docs/deploy.md)"
        )
    return Wanted(
        kubeconfig=host.kubeconfig,
        context=host.context,
        namespace=host.namespace,
        port=place.port,
        log_port=place.log_port,
        data=place.data,
        pki=place.pki or place.data / "pki",
        address=place.address,
        seconds=float(place.wait),
        images=options.images,
        addresses=certificates.addresses,
        names=certificates.names,
        lifetime=timedelta(seconds=seconds_of(certificates.validity, "--cert-validity-period")),
        authority=(certificates.ca_cert, certificates.ca_key),
        etcd=options.etcd,
        parts=parts,
        notes=tuple(notes),
    )


def checked(wanted: Wanted) -> Wanted:
    """The same with what it means nothing to said; raises Failed for what cannot be, naming the flag."""
    etcd, images = wanted.etcd, wanted.images
    problems = [
        (not _NAME.fullmatch(wanted.namespace), f"--namespace {wanted.namespace!r} is no name of a namespace"),
        (wanted.port not in NODE_PORTS, f"--port {wanted.port}: use {NODE_PORTS.start} to {NODE_PORTS.stop - 1}"),
        (
            wanted.log_port not in NODE_PORTS or wanted.log_port == wanted.port,
            f"--log-port {wanted.log_port}: use another one than --port, {NODE_PORTS.start} to {NODE_PORTS.stop - 1}",
        ),
        (wanted.seconds < 0, "--wait-component-ready-timeout: use 0 or more seconds"),
        (images.pull_policy not in _PULL_POLICIES, f"--image-pull-policy: use {', '.join(_PULL_POLICIES)}"),
        (images.mirror not in _MIRRORS, "--kube-image-mirror-country: use cn or global"),
        (wanted.lifetime < timedelta(hours=1), "--cert-validity-period: use an hour or more"),
        (bool(wanted.authority[0]) != bool(wanted.authority[1]), "--ca-cert-file and --ca-key-file belong together"),
        (bool(etcd.cert) != bool(etcd.key), "the client certificate of an external etcd and its key belong together"),
        (etcd.mode not in _MODES, f"--etcd-storage-mode: use {', '.join(_MODES[1:])}"),
        (bool(etcd.servers) and bool(etcd.mode), "--etcd-storage-mode is for an etcd of its own, not an external one"),
        (not etcd.servers and bool(etcd.ca or etcd.cert or etcd.prefix), "--external-etcd-servers is missing"),
        (
            wanted.parts["etcd"].replicas > 1,
            "--etcd-replicas: init installs one etcd; for more give --external-etcd-servers",
        ),
    ]
    problems += [
        (not _LABEL.fullmatch(one), f"--etcd-node-selector-labels {one!r}: use KEY=VALUE") for one in etcd.nodes
    ]
    problems += [
        (not is_address(one), f"{one!r} is no IP address") for one in (*wanted.addresses, wanted.address) if one
    ]
    problems += [
        (not _HOST_NAME.fullmatch(one), f"--cert-external-dns {one!r} is no host name") for one in wanted.names
    ]
    problems += [
        (not one.startswith(("http://", "https://")), f"--external-etcd-servers {one!r} is no URL")
        for one in etcd.servers
    ]
    problems += [
        (not _ARGUMENT.fullmatch(one), f"--{name}-extra-args {one!r}: use --KEY or --KEY=VALUE")
        for name, part in wanted.parts.items()
        for one in part.arguments
    ]
    for wrong, text in problems:
        if wrong:
            raise Failed(text)
    return replace(wanted, notes=(*wanted.notes, *_notes(wanted)))


def kube_registry(images: Images) -> str:
    """The registry of kube-apiserver; empty where it stays as it is."""
    return images.kube_registry or _MIRRORS[images.mirror]


def _notes(wanted: Wanted) -> list[str]:
    notes = []
    manager = wanted.parts["karmada-kube-controller-manager"]
    if manager.image or manager.replicas or manager.arguments:
        notes.append("karmada-kube-controller-manager: there is none here, the services do its work")
    if wanted.etcd.mode == "hostPath" or wanted.etcd.data:
        notes.append("--etcd-storage-mode hostPath, --etcd-data: etcd keeps its data in a claim, not on a node")
    return notes

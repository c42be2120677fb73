"""Reads a KarmadaInitConfig and lays it over what the flags say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.manifest import Manifest
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed
from services.cli.hosting.init_options import COMPONENTS, Etcd, Images
from services.cli.hosting.wanted_installation import Part, Wanted

API: Final = "config.karmada.io/v1alpha1"
KIND: Final = "KarmadaInitConfig"
_LARGEST: Final = 1 << 20


class _Strict(Struct, rename="camel", forbid_unknown_fields=True):
    """A part of the file; what is misspelt is refused."""


class _Argument(_Strict):
    name: str
    value: str = ""


class _Component(_Strict):
    repository: str = ""
    tag: str = ""
    replicas: int = 0
    resources: Manifest = {}
    node_selector: Manifest = {}
    tolerations: list[Manifest] = []
    affinity: Manifest = {}
    extra_args: list[_Argument] = []
    priority_class_name: str = ""


class _Networking(_Strict):
    namespace: str = ""
    port: int = 0


class _ApiServer(_Component):
    advertise_address: str = ""
    networking: _Networking = msgspec.field(default_factory=_Networking)
    service_annotations: Manifest = {}


class _LocalEtcd(_Component):
    data_path: str = ""
    node_selector_labels: str = ""
    pvc_size: str = msgspec.field(name="pvcSize", default="")
    storage_mode: str = ""
    storage_classes_name: str = ""
    init_image: Manifest = {}


class _ExternalEtcd(_Strict):
    endpoints: list[str] = []
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    key_prefix: str = ""


class _Etcd(_Strict):
    local: _LocalEtcd | None = None
    external: _ExternalEtcd | None = None


class _Certificates(_Strict):
    ca_cert_file: str = ""
    ca_key_file: str = ""
    external_dns: list[str] = msgspec.field(name="externalDNS", default_factory=list)
    external_ip: list[str] = msgspec.field(name="externalIP", default_factory=list)
    validity_period: str = ""


class _HostCluster(_Strict):
    api_endpoint: str = ""
    kubeconfig: str = ""
    context: str = ""
    domain: str = ""
    secret_ref: Manifest = {}


class _Registry(_Strict):
    registry: str = ""


class _Images(_Strict):
    image_pull_policy: str = ""
    image_pull_secrets: list[str] = []
    kube_image_mirror_country: str = ""
    kube_image_registry: str = ""
    kube_image_tag: str = ""
    private_registry: _Registry = msgspec.field(default_factory=_Registry)


class _Components(_Strict):
    api_server: _ApiServer | None = msgspec.field(name="karmadaAPIServer", default=None)
    aggregated: _Component | None = msgspec.field(name="karmadaAggregatedAPIServer", default=None)
    kube_manager: _Component | None = msgspec.field(name="kubeControllerManager", default=None)
    manager: _Component | None = msgspec.field(name="karmadaControllerManager", default=None)
    scheduler: _Component | None = msgspec.field(name="karmadaScheduler", default=None)
    webhook: _Component | None = msgspec.field(name="karmadaWebhook", default=None)


class _Spec(_Strict):
    certificates: _Certificates = msgspec.field(default_factory=_Certificates)
    etcd: _Etcd = msgspec.field(default_factory=_Etcd)
    host_cluster: _HostCluster = msgspec.field(default_factory=_HostCluster)
    images: _Images = msgspec.field(default_factory=_Images)
    components: _Components = msgspec.field(default_factory=_Components)
    crds: str = msgspec.field(name="karmadaCRDs", default="")
    data: str = msgspec.field(name="karmadaDataPath", default="")
    pki: str = msgspec.field(name="karmadaPKIPath", default="")
    wait: int = msgspec.field(name="waitComponentReadyTimeout", default=0)


class _Config(_Strict):
    api_version: str
    kind: str
    metadata: Manifest = {}
    spec: _Spec = msgspec.field(default_factory=_Spec)


def with_file(wanted: Wanted, path: Path) -> Wanted:
    """What is wanted once the file has been read: whatever it says counts. Raises Failed, naming the field."""
    spec = _read(path).spec
    notes = [*wanted.notes]
    if spec.crds:
        notes.append("karmadaCRDs: not needed, the definitions come with this command")
    if spec.host_cluster.secret_ref or spec.host_cluster.api_endpoint:
        notes.append("hostCluster.apiEndpoint, hostCluster.secretRef: not used, the kubeconfig says both")
    certificates, host = spec.certificates, spec.host_cluster
    server = spec.components.api_server or _ApiServer()
    data = Path(spec.data) if spec.data else wanted.data
    validity = certificates.validity_period
    return replace(
        wanted,
        kubeconfig=host.kubeconfig or wanted.kubeconfig,
        context=host.context or wanted.context,
        namespace=server.networking.namespace or wanted.namespace,
        port=server.networking.port or wanted.port,
        data=data,
        pki=Path(spec.pki) if spec.pki else data / "pki" if wanted.pki == wanted.data / "pki" else wanted.pki,
        address=server.advertise_address or wanted.address,
        seconds=float(spec.wait) or wanted.seconds,
        images=_images(wanted.images, spec.images),
        addresses=tuple(certificates.external_ip) or wanted.addresses,
        names=tuple(certificates.external_dns) or wanted.names,
        lifetime=timedelta(seconds=seconds_of(validity, "validityPeriod")) if validity else wanted.lifetime,
        authority=(certificates.ca_cert_file or wanted.authority[0], certificates.ca_key_file or wanted.authority[1]),
        etcd=_etcd(wanted.etcd, spec.etcd),
        parts=_parts(wanted.parts, spec),
        notes=tuple(notes),
    )


def _read(path: Path) -> _Config:
    try:
        if path.stat().st_size > _LARGEST:
            raise Failed(f"{path} is larger than {_LARGEST >> 20} MiB: it is no {KIND}")
        config = msgspec.yaml.decode(path.read_bytes(), type=_Config)
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise Failed(f"{path} is no {KIND}: {error}") from None
    if (config.api_version, config.kind) != (API, KIND):
        raise Failed(f"{path} holds a {config.kind} of {config.api_version}, expected a {KIND} of {API}")
    return config


def _images(given: Images, said: _Images) -> Images:
    return Images(
        said.private_registry.registry or given.registry,
        said.image_pull_policy or given.pull_policy,
        tuple(said.image_pull_secrets) or given.pull_secrets,
        said.kube_image_registry or given.kube_registry,
        said.kube_image_tag or given.kube_tag,
        said.kube_image_mirror_country or given.mirror,
    )


def _etcd(given: Etcd, said: _Etcd) -> Etcd:
    local, external = said.local, said.external
    if local is not None and external is not None:
        raise Failed("etcd.local and etcd.external exclude each other")
    if external is not None:
        return given._replace(
            servers=tuple(external.endpoints) or given.servers,
            ca=external.ca_file or given.ca,
            cert=external.cert_file or given.cert,
            key=external.key_file or given.key,
            prefix=external.key_prefix or given.prefix,
        )
    if local is None:
        return given
    return given._replace(
        mode=local.storage_mode or given.mode,
        data=local.data_path or given.data,
        nodes=tuple(filter(None, local.node_selector_labels.split(","))) or given.nodes,
        size=local.pvc_size or given.size,
        storage_class=local.storage_classes_name or given.storage_class,
    )


def _parts(given: dict[str, Part], spec: _Spec) -> dict[str, Part]:
    parts = spec.components
    said = (
        spec.etcd.local,
        parts.api_server,
        parts.scheduler,
        parts.kube_manager,
        parts.manager,
        parts.webhook,
        parts.aggregated,
    )
    return {name: _part(given[name], one) for name, one in zip(COMPONENTS, said, strict=True)}


def _part(given: Part, said: _Component | None) -> Part:
    if said is None:
        return given
    if bool(said.repository) != bool(said.tag):
        raise Failed(f"repository and tag belong together: {said.repository or said.tag}")
    pod: dict[str, Any] = {
        "nodeSelector": said.node_selector,
        "tolerations": said.tolerations,
        "affinity": said.affinity,
    }
    arguments = tuple(f"--{one.name.removeprefix('--')}={one.value}" for one in said.extra_args)
    return replace(
        given,
        image=f"{said.repository}:{said.tag}" if said.repository else given.image,
        replicas=said.replicas or given.replicas,
        priority=said.priority_class_name or given.priority,
        arguments=arguments or given.arguments,
        pod={name: value for name, value in pod.items() if value},
        resources=said.resources,
        service_annotations=said.service_annotations if isinstance(said, _ApiServer) else {},
    )

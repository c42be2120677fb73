"""The Service that stands for an imported one: made of a ServiceImport, and never in the place of another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import SERVICE_IMPORT_ANNOTATION, TOPOLOGY_MODE_ANNOTATION
from services._rules.names import derived_service_name

CLUSTER_SET_IP = "ClusterSetIP"
TOPOLOGY_OFF: Final = "Disabled"
"""Value of the annotation with which a ServiceImport has all endpoints used from everywhere."""


class ServicePort(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One port of an imported Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None

    @property
    def label(self) -> str:
        """How messages call it: its name, or its number where it has none, with the protocol."""
        return f"{self.name or self.port}/{self.protocol}"


class ServiceImport(Struct, frozen=True):
    """What a ServiceImport asks for."""

    name: str
    uid: str
    type: str
    ports: tuple[ServicePort, ...] = ()
    ips: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """Clusters that its status shows."""
    topology_mode: str = "Auto"
    """Whether clients are kept to endpoints near them: Auto or Disabled."""


class DerivedService(Struct, frozen=True):
    """What a Service of the control plane with the name of a derived one says."""

    uid: str
    owner: str
    """The ServiceImport that it was made for; empty for one that was made otherwise."""
    type: str
    ports: tuple[ServicePort, ...]
    selects: bool
    ips: tuple[str, ...] = ()
    topology_mode: str = ""


class _Spec(Struct, frozen=True):
    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] | None = None
    selector: dict[str, str] | None = None
    ips: tuple[str, ...] | None = None


class _Cluster(Struct, frozen=True):
    cluster: str = ""


class _Ingress(Struct, frozen=True):
    ip: str = ""


class _LoadBalancer(Struct, frozen=True):
    ingress: tuple[_Ingress, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    clusters: tuple[_Cluster, ...] | None = None
    load_balancer: _LoadBalancer | None = None


class _Object(Struct, frozen=True):
    spec: _Spec = _Spec()
    status: _Status | None = None


def read_import(manifest: Manifest) -> ServiceImport:
    """What a ServiceImport asks for; raises ValueError for one that cannot be read."""
    metadata, found = manifest["metadata"], _read(manifest)
    status = found.status or _Status()
    return ServiceImport(
        str(metadata["name"]),
        str(metadata.get("uid") or ""),
        found.spec.type,
        found.spec.ports or (),
        found.spec.ips or (),
        tuple(item.cluster for item in status.clusters or ()),
        topology_mode(metadata.get("annotations") or {}),
    )


def read_service(manifest: Manifest) -> DerivedService:
    """What a Service says of which a derived one has the name; raises ValueError for one that cannot be read."""
    metadata, found = manifest["metadata"], _read(manifest)
    balancer = (found.status or _Status()).load_balancer or _LoadBalancer()
    return DerivedService(
        str(metadata.get("uid") or ""),
        _annotation(manifest, SERVICE_IMPORT_ANNOTATION),
        found.spec.type,
        found.spec.ports or (),
        bool(found.spec.selector),
        tuple(item.ip for item in balancer.ingress or ()),
        _annotation(manifest, TOPOLOGY_MODE_ANNOTATION),
    )


def service_manifest(given: ServiceImport, namespace: str) -> Manifest:
    """The derived Service of a ServiceImport; sent as a merge patch it leaves the address that the Service has."""
    ports: list[Any] = msgspec.json.decode(msgspec.json.encode(given.ports))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": derived_service_name(given.name),
            "namespace": namespace,
            # Versions of kube-proxy before 1.31 look at hints only where this says so.
            "annotations": {SERVICE_IMPORT_ANNOTATION: given.name, TOPOLOGY_MODE_ANNOTATION: given.topology_mode},
        },
        "spec": {"type": "ClusterIP", "ports": ports, "selector": None},
    }


def differs(present: DerivedService, given: ServiceImport) -> bool:
    """Whether a derived Service has to be written again."""
    modes = present.topology_mode != given.topology_mode
    return present.type != "ClusterIP" or present.ports != given.ports or present.selects or modes


def taken(present: DerivedService | None, given: ServiceImport) -> str:
    """Why the name of the derived Service cannot be used, in words; empty when it can."""
    if present is None or present.owner == given.name:
        return ""
    name = derived_service_name(given.name)
    return (
        f"Service {name} exists and was not made for this ServiceImport: it is left as it is; delete it, or hand it "
        f"over with the annotation {SERVICE_IMPORT_ANNOTATION}: {given.name}"
    )


def topology_mode(annotations: Mapping[str, Any]) -> str:
    """Whether the annotations of a ServiceImport keep clients to endpoints near them: Auto or Disabled."""
    off = str(annotations.get(TOPOLOGY_MODE_ANNOTATION)).lower() == TOPOLOGY_OFF.lower()
    return TOPOLOGY_OFF if off else "Auto"


def _annotation(manifest: Manifest, name: str) -> str:
    return str((manifest["metadata"].get("annotations") or {}).get(name) or "")


def _read(manifest: Manifest) -> _Object:
    try:
        return msgspec.convert({"spec": manifest.get("spec") or {}, "status": manifest.get("status")}, _Object)
    except msgspec.ValidationError as error:
        raise ValueError(f"{manifest.get('kind')} {manifest['metadata'].get('name')}: {error}") from error

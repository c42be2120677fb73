"""EndpointSlices of the control plane that stand for those of exporting clusters; docs/sources.md#services."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from schemas.events.endpoints import EndpointsCollected
from schemas.manifest import Manifest
from services._rules.constants import (
    DISCOVERY_API,
    IMPORT_CONTROLLER,
    PROVISION_CLUSTER_ANNOTATION,
    SERVICE_NAME_LABEL,
    SLICE_MANAGED_BY_LABEL,
)
from services._rules.endpoints.locality import EVERYWHERE, Locality
from services._rules.names import derived_service_name, imported_endpoint_slice_name, short_hash

_LONGEST_NAME: Final = 253


class ImportedSlice(Struct, frozen=True):
    """What an EndpointSlice of the control plane says: the cluster and Service it stands for, and its content."""

    cluster: str
    service: str
    """The derived Service, by its label."""
    content: ServiceSlice
    ours: bool = True
    """Whether it bears the mark of those that are made here."""

    @property
    def name(self) -> str:
        """Its name in the control plane."""
        return self.content.name


def imported(event: EndpointsCollected, near: Locality = EVERYWHERE) -> ImportedSlice:
    """What the control plane has to hold of a slice that was collected, with hints from where it is used (`near`)."""
    name = imported_endpoint_slice_name(event.name, event.cluster)
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 11].rstrip('-.')}-{short_hash(name)}"
    endpoints = near.hinted(event.cluster, event.endpoints)
    content = ServiceSlice(name=name, address_type=event.address_type, endpoints=endpoints, ports=event.ports)
    return ImportedSlice(event.cluster, derived_service_name(event.service), content)


def manifest_of(item: ImportedSlice, namespace: str) -> Manifest:
    """The EndpointSlice itself; its labels and annotations are these and no others."""
    fields: Manifest = msgspec.json.decode(msgspec.json.encode(item.content))
    return {
        "apiVersion": DISCOVERY_API,
        "kind": "EndpointSlice",
        "metadata": {
            "name": item.content.name,
            "namespace": namespace,
            "labels": {SERVICE_NAME_LABEL: item.service, SLICE_MANAGED_BY_LABEL: IMPORT_CONTROLLER},
            "annotations": {PROVISION_CLUSTER_ANNOTATION: item.cluster},
        },
        "addressType": item.content.address_type,
        "endpoints": fields.get("endpoints", []),
        "ports": fields.get("ports", []),
    }


class _Content(Struct, rename="camel"):
    address_type: str
    endpoints: tuple[SliceEndpoint, ...] | None = None
    ports: tuple[PortOfSlice, ...] | None = None


def read_imported(manifest: Manifest) -> ImportedSlice:
    """What an EndpointSlice of the control plane says; raises ValueError for one that cannot be read."""
    metadata: dict[str, Any] = manifest["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    try:
        found = msgspec.convert(manifest, _Content)
    except msgspec.ValidationError as error:
        raise ValueError(f"EndpointSlice {metadata.get('name')}: {error}") from error
    content = ServiceSlice(
        name=str(metadata["name"]),
        address_type=found.address_type,
        endpoints=found.endpoints or (),
        ports=found.ports or (),
    )
    return ImportedSlice(
        str(annotations.get(PROVISION_CLUSTER_ANNOTATION) or ""),
        str(labels.get(SERVICE_NAME_LABEL) or ""),
        content,
        labels.get(SLICE_MANAGED_BY_LABEL) == IMPORT_CONTROLLER,
    )

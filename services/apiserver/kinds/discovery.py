"""Discovery documents of a registry: APIVersions, APIGroupList, APIGroup, APIResourceList and their aggregated form."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from schemas.manifest import Manifest
from services.apiserver.kinds.kind_model import Kind, Resource, Subresource

if TYPE_CHECKING:
    from services.apiserver.kinds.registry import Registry


def api_versions(registry: Registry, server_address: str) -> Manifest:
    """Return the document at /api; `server_address` (host:port) is the address for in-cluster clients."""
    return {
        "kind": "APIVersions",
        "versions": registry.versions(""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(registry: Registry) -> Manifest:
    """Return the document at /apis."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(registry, name) for name in registry.groups()],
    }


def api_group(registry: Registry, group: str) -> Manifest | None:
    """Return the document at /apis/<group>; None when the group is not served."""
    if not group or not registry.versions(group):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def _group(registry: Registry, group: str) -> Manifest:
    versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in registry.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(registry: Registry, group: str, version: str) -> Manifest | None:
    """Return the document at /api/v1 or /apis/<group>/<version>; None when it is not served."""
    kinds = registry.in_group_version(group, version)
    if not kinds:
        return None
    resources: list[Manifest] = []
    for kind in kinds:
        resources.append(_resource(kind))
        resources.extend(_subresource(kind, item) for item in _sorted(kind))
    document: Manifest = {"kind": "APIResourceList"}
    if group:
        document["apiVersion"] = "v1"
    return {**document, "groupVersion": f"{group}/{version}" if group else version, "resources": resources}


def aggregated(registry: Registry, core: bool, version: str) -> Manifest:
    """Return the APIGroupDiscoveryList at /api (`core`) or /apis."""
    items: list[Manifest] = []
    served = [""] if registry.versions("") else []
    for group in served if core else registry.groups():
        versions = [
            {
                "version": name,
                "resources": [_aggregated(kind) for kind in registry.in_group_version(group, name)],
                "freshness": "Current",
            }
            for name in registry.versions(group)
        ]
        meta: Manifest = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
        items.append({"metadata": meta, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _sorted(kind: Kind) -> list[Subresource]:
    """Subresources by name; those of custom kinds in the order of their definition: status, then scale."""
    if kind.custom:
        return list(kind.resource.subresources)
    return sorted(kind.resource.subresources, key=lambda item: item.name)


def _resource(kind: Kind) -> Manifest:
    resource = kind.resource
    entry: Manifest = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    entry |= _names(resource)
    if "watch" in resource.verbs:
        entry["storageVersionHash"] = _storage_hash(kind)
    return entry


def _storage_hash(kind: Kind) -> str:
    """The text by which clients see that two versions are one kind, and that it is stored in another version now."""
    stored = f"{kind.store_group}/{kind.store_version}/{kind.resource.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _names(resource: Resource) -> Manifest:
    """The names and groups by which clients may call a resource, where it has any."""
    found = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {name: values for name, values in found.items() if values}


def _subresource(kind: Kind, item: Subresource) -> Manifest:
    entry: Manifest = {
        "name": f"{kind.resource.plural}/{item.name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
    }
    if item.group is not None:
        entry["group"] = item.group
    if item.version is not None:
        entry["version"] = item.version
    entry["kind"] = item.kind or kind.resource.kind
    entry["verbs"] = list(item.verbs)
    return entry


def _aggregated(kind: Kind) -> Manifest:
    resource = kind.resource
    entry: Manifest = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": list(resource.verbs),
    }
    entry |= _names(resource)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": item.name,
                "responseKind": {
                    "group": resource.group if item.group is None else item.group,
                    "version": item.version or resource.version,
                    "kind": item.kind or resource.kind,
                },
                "verbs": list(item.verbs),
            }
            for item in _sorted(kind)
        ]
    return entry

"""Discovery documents of a registry: APIVersions, APIGroupList, APIGroup, APIResourceList and their aggregated form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schemas.manifest import Manifest
from services.apiserver.kinds.kind_model import Kind, Subresource

if TYPE_CHECKING:
    from services.apiserver.kinds.registry import Registry


class Documents:
    """Discovery documents of one registry, each built once per registry generation."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._cache: dict[tuple[str, ...], Any] = {}

    def _cached(self, key: tuple[str, ...], build: Callable[[], Any]) -> Any:
        if self._generation != self._registry.generation:
            self._cache.clear()
            self._generation = self._registry.generation
        if key not in self._cache:
            self._cache[key] = build()
        return self._cache[key]

    def api_versions(self, server_address: str) -> Manifest:
        """The document at /api; `server_address` (host:port) is the address for in-cluster clients."""
        return {
            "kind": "APIVersions",
            "versions": self._registry.versions(""),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
        }

    def api_group_list(self) -> Manifest:
        """The document at /apis."""
        return self._cached(("apis",), self._build_group_list)  # type: ignore[no-any-return]

    def _build_group_list(self) -> Manifest:
        groups = [self._group(group) for group in self._registry.groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> Manifest:
        versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in self._registry.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def api_group(self, group: str) -> Manifest | None:
        """The document at /apis/<group>; None when the group is not served."""
        if not group or not self._registry.versions(group):
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}

    def api_resource_list(self, group: str, version: str) -> Manifest | None:
        """The document at /api/v1 or /apis/<group>/<version>; None when it is not served."""
        return self._cached(("rs", group, version), lambda: self._build_resource_list(group, version))  # type: ignore[no-any-return]

    def _build_resource_list(self, group: str, version: str) -> Manifest | None:
        kinds = self._registry.in_group_version(group, version)
        if not kinds:
            return None
        resources: list[Manifest] = []
        for kind in kinds:
            resources.append(_resource(kind))
            resources.extend(_subresource(kind, item) for item in _sorted(kind))
        document: Manifest = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = [item for item in resources if item]
        return document

    def aggregated(self, *, core: bool, version: str) -> Manifest:
        """The APIGroupDiscoveryList at /api (`core`) or /apis."""
        return self._cached(("agg", str(core), version), lambda: self._build_aggregated(core, version))  # type: ignore[no-any-return]

    def _build_aggregated(self, core: bool, version: str) -> Manifest:
        registry = self._registry
        items: list[Manifest] = []
        for group in [""] if core else registry.groups():
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
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


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
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
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

"""The resources that the gateway serves, as data, and their discovery documents (reference 01 §1.1)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services.gateway.views.catalog import Kind

GROUP: Final = "work.karmada.io"
VERSIONS: Final = ("v1alpha2", "v1alpha1")
VERBS: Final = ("get", "list", "watch")
"""No verb that writes: garbage and namespace controllers skip read-only kinds."""


class Resource(Struct, frozen=True):
    """One kind in one version; `columns` are those between NAME and AGE."""

    version: str
    plural: str
    singular: str
    kind: Kind
    short_name: str
    namespaced: bool
    columns: tuple[str, ...] = ()
    hint: str = ""
    """What to change instead of the object itself."""

    @property
    def api_version(self) -> str:
        """`work.karmada.io/<version>`."""
        return f"{GROUP}/{self.version}"

    @property
    def full_name(self) -> str:
        """`<plural>.work.karmada.io`, as messages name it."""
        return f"{self.plural}.{GROUP}"


_BINDING_HINT: Final = "change the resource template or its PropagationPolicy"
_CLUSTER_HINT: Final = "change the resource template or its ClusterPropagationPolicy"
_WORK_HINT: Final = "change the resource template, its PropagationPolicy (where it runs) or an OverridePolicy"
_BINDING_COLUMNS: Final = ("SCHEDULED", "FULLYAPPLIED")


def _bindings(version: str, columns: tuple[str, ...]) -> tuple[Resource, Resource]:
    return (
        Resource(
            version,
            "clusterresourcebindings",
            "clusterresourcebinding",
            "ClusterResourceBinding",
            "crb",
            False,
            columns,
            _CLUSTER_HINT,
        ),
        Resource(version, "resourcebindings", "resourcebinding", "ResourceBinding", "rb", True, columns, _BINDING_HINT),
    )


RESOURCES: Final[tuple[Resource, ...]] = (
    *_bindings("v1alpha2", _BINDING_COLUMNS),
    *_bindings("v1alpha1", ()),
    Resource("v1alpha1", "works", "work", "Work", "wk", True, ("WORKLOAD-KIND", "APPLIED"), _WORK_HINT),
)
BY_PATH: Final = {(resource.version, resource.plural): resource for resource in RESOURCES}


def _group() -> Manifest:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def group_list() -> Manifest:
    """The document at /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> Manifest:
    """The document at /apis/work.karmada.io."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def resource_list(version: str) -> Manifest | None:
    """The document at /apis/work.karmada.io/<version>; None for a version that is not served."""
    entries: list[Manifest] = []
    for resource in RESOURCES:
        if resource.version != version:
            continue
        entries.append(
            {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(VERBS),
                "shortNames": [resource.short_name],
                "categories": ["karmada-io"],
            }
        )
        entries.append(
            {
                "name": f"{resource.plural}/status",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": ["get"],
            }
        )
    if not entries:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": entries,
    }


def aggregated(version: str, *, core: bool = False) -> Manifest:
    """The APIGroupDiscoveryList in apidiscovery.k8s.io/<version>; that of the core group is empty."""
    items: list[Manifest] = []
    if not core:
        versions = [
            {
                "version": name,
                "resources": [_aggregated(resource) for resource in RESOURCES if resource.version == name],
                "freshness": "Current",
            }
            for name in VERSIONS
        ]
        items.append({"metadata": {"name": GROUP, "creationTimestamp": None}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated(resource: Resource) -> Manifest:
    kind = {"group": GROUP, "version": resource.version, "kind": resource.kind}
    return {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(VERBS),
        "shortNames": [resource.short_name],
        "categories": ["karmada-io"],
        "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
    }

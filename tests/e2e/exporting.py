"""The objects by which a test's Service is exported and imported."""

from __future__ import annotations

from schemas.manifest import Manifest
from tests.e2e.space import Space, clusters

API = "multicluster.x-k8s.io/v1alpha1"


def definitions(space: Space) -> Manifest:
    """The policy that brings both definitions to every member."""
    kinds = ("serviceexports", "serviceimports")
    named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "ClusterPropagationPolicy",
            "metadata": {"name": "multicluster-services"},
            "spec": {
                "resourceSelectors": [{**named, "name": f"{kind}.multicluster.x-k8s.io"} for kind in kinds],
                "placement": clusters(*space.member),
                "conflictResolution": "Overwrite",
            },
        }
    )


def export(space: Space, service: str, *members: str) -> None:
    """Have a Service, which is there, exported by members; again to have others do it."""
    space.apply({"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": service, "namespace": space.name}})
    kinds = [{"apiVersion": "v1", "kind": "Service"}, {"apiVersion": API, "kind": "ServiceExport"}]
    _propagate(space, f"{service}-export", [{**kind, "name": service} for kind in kinds], *members)


def import_into(space: Space, service: str, ports: list[Manifest], *members: str) -> None:
    """Make a Service of others reachable in members; without any in the control plane only."""
    spec = {"type": "ClusterSetIP", "ports": ports}
    metadata = {"name": service, "namespace": space.name}
    space.apply({"apiVersion": API, "kind": "ServiceImport", "metadata": metadata, "spec": spec})
    if members:
        _propagate(
            space, f"{service}-import", [{"apiVersion": API, "kind": "ServiceImport", "name": service}], *members
        )


def _propagate(space: Space, name: str, selectors: list[Manifest], *members: str) -> None:
    space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": space.name},
            "spec": {"resourceSelectors": selectors, "placement": clusters(*members)},
        }
    )

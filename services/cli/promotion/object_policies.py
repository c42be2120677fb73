"""Decides which policy brings exactly one object to members."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.manifest import Manifest
from services._rules.constants import POLICY_API
from services._rules.names import policy_name


def policy_of(template: Manifest, placement: Manifest, *, name: str = "", more: Manifest | None = None) -> Manifest:
    """The policy of an object, cluster-wide for one without a namespace; `more` are further fields of its spec.

    Without a name it gets the one that every command of the same object arrives at.
    """
    api_version, kind = str(template["apiVersion"]), str(template["kind"])
    metadata = template["metadata"]
    namespace = str(metadata.get("namespace") or "")
    selector = {"apiVersion": api_version, "kind": kind, "name": metadata["name"]}
    group_version = api_version if "/" in api_version else f"/{api_version}"
    found = name or policy_name(namespace, str(metadata["name"]), f"{group_version}, Kind={kind}")
    return {
        "apiVersion": POLICY_API,
        "kind": "PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        "metadata": {"name": found, **({"namespace": namespace} if namespace else {})},
        "spec": {
            "resourceSelectors": [{**selector, **({"namespace": namespace} if namespace else {})}],
            "placement": placement,
            **(more or {}),
        },
    }


def placement_in(clusters: Sequence[str]) -> Manifest:
    """The placement in these clusters; without any in all there are."""
    return {"clusterAffinity": {"clusterNames": list(clusters)} if clusters else {}}


def promotion_policy(template: Manifest, cluster: str, *, name: str, dependencies: bool) -> Manifest:
    """The policy of an object that runs in one member already: it takes it over there, and never removes it."""
    taking_over = {
        "propagateDeps": dependencies,
        "conflictResolution": "Overwrite",
        "preserveResourcesOnDeletion": True,
    }
    return policy_of(template, placement_in([cluster]), name=name, more=taking_over)

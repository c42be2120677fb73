"""Turns what the log holds of a control plane into objects that can be created in another one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, UnsetType, field

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.manifest import Manifest
from services.cluster_monitor.decide import FINALIZER

_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
)
"""What only the server of an object sets; owners have another uid in another control plane."""
ONCE: Final = frozenset({"WorkloadRebalancer"})
"""Kinds that ask for something once: made again, they would ask again."""
_FIRST: Final = ("Namespace", "CustomResourceDefinition")


class Recorded(Struct):
    """The present state of a control plane as the log knows it; `digests` are manifests that lie elsewhere."""

    templates: list[TemplateChanged] = field(default_factory=list)
    policies: list[PolicyChanged] = field(default_factory=list)
    clusters: list[ClusterChanged] = field(default_factory=list)

    def take(self, event: Known) -> None:
        """Take in the last event of a subject; what is being deleted, or has asked for something once, is left out."""
        match event:
            case TemplateChanged():
                self.templates.append(event)
            case PolicyChanged() if not event.deleting and event.key.kind not in ONCE:
                self.policies.append(event)
            case ClusterChanged() if not event.deleting:
                self.clusters.append(event)
            case _:
                return


def inline(template: TemplateChanged) -> bytes | None:
    """The manifest of a template where the fact itself holds it."""
    return None if isinstance(template.manifest, UnsetType) else bytes(template.manifest)


def fresh(data: bytes) -> Manifest:
    """A manifest as it is created again: without status and what servers set."""
    manifest: Manifest = msgspec.json.decode(data)
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVER_FIELDS}
    return {name: value for name, value in manifest.items() if name not in ("status", "metadata")} | {
        "metadata": metadata
    }


def cluster_of(event: ClusterChanged) -> Manifest:
    """A Cluster object as it is created again, under the care that it had."""
    manifest = fresh(bytes(event.manifest))
    manifest["metadata"]["finalizers"] = [FINALIZER]
    return manifest


def in_order(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """Manifests in groups that follow one another: namespaces, definitions of kinds, and all others."""
    groups: dict[str, list[Manifest]] = {kind: [] for kind in (*_FIRST, "")}
    for manifest in manifests:
        kind = manifest["kind"]
        groups[kind if kind in _FIRST else ""].append(manifest)
    return list(groups.values())


def missing_namespaces(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Namespaces that objects need and that are not among them."""
    manifests = list(manifests)
    there = {item["metadata"]["name"] for item in manifests if item["kind"] == "Namespace"}
    needed = {item["metadata"].get("namespace") or "" for item in manifests}
    needed |= {namespace for namespace, _ in credentials(manifests)}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(needed - there - {""})
    ]


def credentials(manifests: Iterable[Manifest]) -> set[tuple[str, str]]:
    """Namespace and name of the Secrets that Cluster objects refer to and that are not among the manifests."""
    manifests = list(manifests)
    there = {
        (item["metadata"].get("namespace"), item["metadata"]["name"]) for item in manifests if item["kind"] == "Secret"
    }
    wanted = {
        (ref["namespace"], ref["name"])
        for item in manifests
        if item["kind"] == "Cluster"
        for name in ("secretRef", "impersonatorSecretRef")
        if (ref := item["spec"].get(name))
    }
    return wanted - there

"""Claim of a propagation policy on a template or binding: the labels and annotations that name its owner.

Every function returns an object that shares all it did not change with its input; inputs are never altered.
Source: docs/sources.md#policies.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import (
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_ID_LABEL,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
)

_POLICY_ANNOTATIONS = (PROPAGATION_POLICY_NAMESPACE_ANNOTATION, PROPAGATION_POLICY_NAME_ANNOTATION)


class Claim(Struct, frozen=True):
    """The policy that owns an object; the namespace is empty for a cluster-wide one."""

    policy_id: str
    namespace: str
    name: str

    @property
    def cluster_wide(self) -> bool:
        """Whether a ClusterPropagationPolicy holds the claim."""
        return not self.namespace

    def labels(self) -> dict[str, str]:
        """The labels that make the claim."""
        key = CLUSTER_PROPAGATION_POLICY_ID_LABEL if self.cluster_wide else PROPAGATION_POLICY_ID_LABEL
        return {key: self.policy_id}

    def annotations(self) -> dict[str, str]:
        """The annotations that make the claim."""
        if self.cluster_wide:
            return {CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: self.name}
        return {
            PROPAGATION_POLICY_NAMESPACE_ANNOTATION: self.namespace,
            PROPAGATION_POLICY_NAME_ANNOTATION: self.name,
        }


def read_claim(manifest: Mapping[str, Any]) -> Claim | None:
    """The complete claim on an object, a namespaced one first; a partial claim counts as none."""
    metadata = manifest.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    policy_id = labels.get(PROPAGATION_POLICY_ID_LABEL)
    namespace = annotations.get(PROPAGATION_POLICY_NAMESPACE_ANNOTATION)
    name = annotations.get(PROPAGATION_POLICY_NAME_ANNOTATION)
    if policy_id and namespace and name:
        return Claim(policy_id, namespace, name)
    policy_id = labels.get(CLUSTER_PROPAGATION_POLICY_ID_LABEL)
    name = annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
    return Claim(policy_id, "", name) if policy_id and name else None


def add_policy_claim(manifest: Manifest, policy_id: str, namespace: str, name: str) -> Manifest:
    """Set the claim of a PropagationPolicy; a claim of a ClusterPropagationPolicy beside it stays."""
    return _merge(
        manifest,
        {PROPAGATION_POLICY_ID_LABEL: policy_id},
        {PROPAGATION_POLICY_NAMESPACE_ANNOTATION: namespace, PROPAGATION_POLICY_NAME_ANNOTATION: name},
    )


def add_cluster_policy_claim(manifest: Manifest, policy_id: str, name: str) -> Manifest:
    """Set the claim of a ClusterPropagationPolicy; a claim of a PropagationPolicy beside it stays."""
    return _merge(
        manifest,
        {CLUSTER_PROPAGATION_POLICY_ID_LABEL: policy_id},
        {CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: name},
    )


def clean_policy_claim(manifest: Manifest) -> Manifest:
    """Remove the claim of a PropagationPolicy."""
    return _without(manifest, (PROPAGATION_POLICY_ID_LABEL,), _POLICY_ANNOTATIONS)


def clean_cluster_policy_claim(manifest: Manifest) -> Manifest:
    """Remove the claim of a ClusterPropagationPolicy."""
    return _without(manifest, (CLUSTER_PROPAGATION_POLICY_ID_LABEL,), (CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,))


def claim_template(manifest: Manifest, claim: Claim) -> Manifest:
    """The template with a claim applied, the same object where nothing has to change.

    A namespaced policy takes a claim of a cluster-wide one away; the reverse does not happen.
    Source: docs/sources.md#binding-requests.
    """
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    if claim.cluster_wide:
        if labels.get(CLUSTER_PROPAGATION_POLICY_ID_LABEL) == claim.policy_id:
            return manifest
        return add_cluster_policy_claim(manifest, claim.policy_id, claim.name)
    if labels.get(PROPAGATION_POLICY_ID_LABEL) == claim.policy_id and CLUSTER_PROPAGATION_POLICY_ID_LABEL not in labels:
        return manifest
    return add_policy_claim(clean_cluster_policy_claim(manifest), claim.policy_id, claim.namespace, claim.name)


def claim_labels_match(manifest: Mapping[str, Any], target: Mapping[str, str]) -> bool:
    """Whether an object still bears the labels of the claim that is to be cleaned up."""
    labels = (manifest.get("metadata") or {}).get("labels")
    if labels is None:
        return False
    return all(labels.get(key, "") == value for key, value in target.items())


def _merge(manifest: Manifest, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Manifest:
    metadata = manifest.get("metadata") or {}
    return manifest | {
        "metadata": metadata
        | {
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
        }
    }


def _without(manifest: Manifest, labels: Iterable[str], annotations: Iterable[str]) -> Manifest:
    metadata = dict(manifest.get("metadata") or {})
    changed = False
    for member, keys in (("labels", labels), ("annotations", annotations)):
        present = metadata.get(member)
        if present and any(key in present for key in keys):
            dropped = frozenset(keys)
            metadata[member] = {key: value for key, value in present.items() if key not in dropped}
            changed = True
    return manifest | {"metadata": metadata} if changed else manifest

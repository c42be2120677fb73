"""Claim of a MultiClusterService on the Service of its name: while it lasts no policy claims that Service.

Every function returns an object that shares all it did not change with its input. Source: docs/sources.md#services.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules.constants import (
    MULTI_CLUSTER_SERVICE,
    MULTI_CLUSTER_SERVICE_ID_LABEL,
    MULTI_CLUSTER_SERVICE_NAME,
    MULTI_CLUSTER_SERVICE_NAMESPACE,
    TEMPLATE_CLAIMED_BY_LABEL,
)
from services._rules.policies.policy_claims import clean_cluster_policy_claim, clean_policy_claim

_LABELS: Final = frozenset({TEMPLATE_CLAIMED_BY_LABEL, MULTI_CLUSTER_SERVICE_ID_LABEL})
_ANNOTATIONS: Final = frozenset({MULTI_CLUSTER_SERVICE_NAMESPACE, MULTI_CLUSTER_SERVICE_NAME})


def read_service_claim(manifest: Mapping[str, Any]) -> PolicyKey | None:
    """The MultiClusterService that claims an object; None where none does, or the claim does not name it."""
    metadata = manifest.get("metadata") or {}
    if not is_claimed_by_service(manifest):
        return None
    annotations = metadata.get("annotations") or {}
    namespace = annotations.get(MULTI_CLUSTER_SERVICE_NAMESPACE)
    name = annotations.get(MULTI_CLUSTER_SERVICE_NAME)
    return PolicyKey(MULTI_CLUSTER_SERVICE, namespace, name) if namespace and name else None


def is_claimed_by_service(manifest: Mapping[str, Any]) -> bool:
    """Whether an object bears the label of such a claim."""
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(TEMPLATE_CLAIMED_BY_LABEL) == MULTI_CLUSTER_SERVICE)


def claim_service(manifest: Manifest, permanent_id: str, owner: PolicyKey) -> Manifest:
    """The Service with the claim of a MultiClusterService in place of that of a policy."""
    cleaned = clean_cluster_policy_claim(clean_policy_claim(manifest))
    metadata = cleaned.get("metadata") or {}
    claim = {TEMPLATE_CLAIMED_BY_LABEL: MULTI_CLUSTER_SERVICE, MULTI_CLUSTER_SERVICE_ID_LABEL: permanent_id}
    named = {MULTI_CLUSTER_SERVICE_NAMESPACE: owner.namespace, MULTI_CLUSTER_SERVICE_NAME: owner.name}
    labels = {**(metadata.get("labels") or {}), **claim}
    annotations = {**(metadata.get("annotations") or {}), **named}
    if labels == metadata.get("labels") and annotations == metadata.get("annotations"):
        return cleaned
    return cleaned | {"metadata": metadata | {"labels": labels, "annotations": annotations}}


def clean_service_claim(manifest: Manifest) -> Manifest:
    """The object without such a claim; that of any other controller stays."""
    if not is_claimed_by_service(manifest):
        return manifest
    metadata = dict(manifest["metadata"])
    for member, keys in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
        present = metadata.get(member)
        if present:
            metadata[member] = {name: value for name, value in present.items() if name not in keys}
    return manifest | {"metadata": metadata}

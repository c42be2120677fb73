"""Reads the claim of a policy on a template, and computes the writes that change it."""

from __future__ import annotations

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.kubernetes.event_objects import Note
from services._rules.policies.policy_claims import clean_cluster_policy_claim, clean_policy_claim, read_claim
from services._rules.policies.service_claims import clean_service_claim, read_service_claim


class WriteClaim(Struct, frozen=True):
    """Set labels and annotations of a template; None removes one. Only if it still has this uid."""

    key: ObjectKey
    api_version: str
    uid: str
    labels: dict[str, str | None]
    annotations: dict[str, str | None]
    preemption: Note | None = None
    """The Event that one policy took the template from another, to be told once this is written."""


def claimed_policy(manifest: Manifest) -> PolicyKey | None:
    """Key of the policy, or of the MultiClusterService, whose complete claim an object bears."""
    claim = read_claim(manifest)
    if claim is None:
        return read_service_claim(manifest)
    kind = "ClusterPropagationPolicy" if claim.cluster_wide else "PropagationPolicy"
    return PolicyKey(kind, claim.namespace, claim.name)


def unclaimed(manifest: Manifest) -> Manifest:
    """The template without the claim of any policy."""
    return clean_service_claim(clean_cluster_policy_claim(clean_policy_claim(manifest)))


def claim_write(
    key: ObjectKey, manifest: Manifest, wanted: Manifest, preemption: Note | None = None
) -> list[WriteClaim]:
    """The write that turns the claim of one manifest into that of the other, if any."""
    if wanted is manifest:
        return []
    before, after = manifest["metadata"], wanted["metadata"]
    labels = _difference(before.get("labels") or {}, after.get("labels") or {})
    annotations = _difference(before.get("annotations") or {}, after.get("annotations") or {})
    if not labels and not annotations:
        return []
    return [WriteClaim(key, manifest["apiVersion"], str(before.get("uid", "")), labels, annotations, preemption)]


def foreseen(manifest: Manifest, claimed: Manifest) -> Manifest:
    """The template as the server will answer the write of its claim.

    A Deployment's generation rises with its annotations too: a fact with the old one would be outdated, and every copy
    rendered from it delivered twice.
    """
    before, after = manifest["metadata"], claimed["metadata"]
    annotated = (before.get("annotations") or {}) != (after.get("annotations") or {})
    if not annotated or manifest["kind"] != "Deployment" or not manifest["apiVersion"].startswith("apps/"):
        return claimed
    return {**claimed, "metadata": {**after, "generation": int(before.get("generation", 0)) + 1}}


def with_claim(manifest: Manifest, write: WriteClaim) -> Manifest:
    """The template as the server answers a write of its claim."""
    metadata = dict(manifest["metadata"])
    for part, changes in (("labels", write.labels), ("annotations", write.annotations)):
        merged = {**(metadata.get(part) or {}), **changes}
        metadata[part] = {name: value for name, value in merged.items() if value is not None}
    return foreseen(manifest, {**manifest, "metadata": metadata})


def _difference(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: value for name, value in after.items() if before.get(name) != value}
    changed.update((name, None) for name in before.keys() - after.keys())
    return changed

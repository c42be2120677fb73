"""Keeps labels and annotations of other writers on a member's object.

Source: docs/sources.md#apply, #rendering.
"""

from collections.abc import Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.constants import MANAGED_ANNOTATIONS_ANNOTATION, MANAGED_LABELS_ANNOTATION


def retain_labels(desired: Manifest, observed: Manifest) -> Manifest:
    """The desired object with the observed labels that were never ours; what we once set and dropped goes."""
    return _retain(desired, observed, "labels", MANAGED_LABELS_ANNOTATION)


def retain_annotations(desired: Manifest, observed: Manifest) -> Manifest:
    """The desired object with the observed annotations that were never ours; what we once set and dropped goes."""
    return _retain(desired, observed, "annotations", MANAGED_ANNOTATIONS_ANNOTATION)


def _retain(desired: Manifest, observed: Manifest, member: str, record: str) -> Manifest:
    live = _pairs(observed, member)
    if not live:
        return desired
    wanted = _pairs(desired, member)
    ours = recorded_keys(_pairs(observed, "annotations"), record)
    kept = {key: value for key, value in live.items() if key not in wanted and key not in ours}
    if not kept:
        return desired
    metadata = desired.get("metadata") or {}
    return {**desired, "metadata": {**metadata, member: {**wanted, **kept}}}


def recorded_keys(annotations: Mapping[str, Any], record: str) -> frozenset[str]:
    """Keys that a bookkeeping annotation names as ours."""
    text = annotations.get(record)
    return frozenset(text.split(",")) if isinstance(text, str) and text else frozenset()


def record_managed(manifest: Manifest) -> Manifest:
    """The manifest with both bookkeeping annotations naming all its labels and annotations, these two included."""
    metadata = manifest.get("metadata") or {}
    annotations = {**_pairs(manifest, "annotations"), MANAGED_ANNOTATIONS_ANNOTATION: "", MANAGED_LABELS_ANNOTATION: ""}
    annotations[MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(sorted(annotations))
    annotations[MANAGED_LABELS_ANNOTATION] = ",".join(sorted(_pairs(manifest, "labels")))
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _pairs(obj: Manifest, member: str) -> dict[str, Any]:
    metadata = obj.get("metadata")
    pairs = metadata.get(member) if isinstance(metadata, dict) else None
    return pairs if isinstance(pairs, dict) else {}

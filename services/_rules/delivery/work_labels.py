"""Adds the marks of a work to the manifest that its cluster gets.

Source: docs/sources.md#rendering.
"""

from __future__ import annotations

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.delivery.metadata_retention import record_managed
from services._rules.identities import work_id
from services._rules.names import execution_namespace, work_name


def with_work_labels(manifest: Manifest, cluster: str, key: ObjectKey, uid: str) -> Manifest:
    """The manifest with the permanent id and the namespace of one cluster's work; what it shares is not copied."""
    metadata = manifest["metadata"]
    labels = {**(metadata.get("labels") or {}), const.WORK_ID_LABEL: work_id(cluster, key, uid)}
    annotations = {
        **(metadata.get("annotations") or {}),
        const.WORK_NAMESPACE_ANNOTATION: execution_namespace(cluster),
    }
    return {**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def marked_for_work(manifest: Manifest, cluster: str, key: ObjectKey, uid: str) -> Manifest:
    """The manifest of an object that has no template, with every mark of its work and the record of its metadata."""
    marked = with_work_labels(manifest, cluster, key, uid)
    metadata = marked["metadata"]
    labels = {**metadata["labels"], const.MANAGED_LABEL: const.LABEL_TRUE}
    annotations = {
        **metadata["annotations"],
        const.TEMPLATE_UID_ANNOTATION: uid,
        const.WORK_NAME_ANNOTATION: work_name(manifest["kind"], key.name, key.namespace),
    }
    return record_managed({**marked, "metadata": {**metadata, "labels": labels, "annotations": annotations}})


def without_marks(manifest: Manifest) -> Manifest:
    """The manifest as every cluster with the same content shares it."""
    metadata = manifest["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != const.WORK_ID_LABEL}
    annotations = {
        name: value for name, value in metadata["annotations"].items() if name != const.WORK_NAMESPACE_ANNOTATION
    }
    return {**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}

"""Defaults and rules of bindings and works, and protection from deletion (docs/sources.md#admission)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._rules.admission.common.answer import Context, Refusal
from services._rules.constants import (
    DELETION_PROTECTED_ALWAYS,
    DELETION_PROTECTED_LABEL,
    DEPENDENCIES_ANNOTATION,
    WORK_ID_LABEL,
)
from services._rules.delivery.metadata_retention import record_managed
from services._rules.interpreter.common.interpretation import InterpretError
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.prune import prune
from services._rules.kubernetes.manifest_checks import is_readable, map_of_text
from services._rules.kubernetes.validation.field_errors import FieldError, invalid


class _Reference(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    label_selector: dict[str, Any] | None = None


_REFERENCES = msgspec.json.Decoder(list[_Reference] | None)


def identified(obj: Manifest, label: str, identity: str) -> Manifest:
    """The object with an identity, the one it has if it has one."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if labels.get(label):
        return obj
    return obj | {"metadata": metadata | {"labels": {**labels, label: identity}}}


def validate_binding(obj: Manifest, context: Context) -> list[FieldError]:
    """What is wrong with a ResourceBinding, apart from quotas. Raises Refusal for unreadable dependencies."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if DEPENDENCIES_ANNOTATION in annotations:
        try:
            _REFERENCES.decode(annotations[DEPENDENCIES_ANNOTATION] or "")
        except msgspec.DecodeError as error:
            raise Refusal(
                f"annotation {DEPENDENCIES_ANNOTATION} is no JSON list of references: {error}; correct or remove it"
            ) from None
    if not context.multiple_pod_templates:
        return []
    found: list[FieldError] = []
    names: set[str] = set()
    for position, component in enumerate((obj.get("spec") or {}).get("components") or ()):
        name = component.get("name") or ""
        if not name or name in names:
            problem = "must be unique" if name else "must not be empty"
            found.append(invalid(f"spec.components[{position}].name", name, problem))
        names.add(name)
    return found


def default_work(obj: Manifest, identity: str) -> Manifest:
    """The work with an identity, its manifests pruned and marked. Raises Refusal for what is no manifest."""
    obj = identified(obj, WORK_ID_LABEL, identity)
    spec = obj.get("spec") or {}
    workload = spec.get("workload") or {}
    if not workload.get("manifests"):
        return obj
    identity = obj["metadata"]["labels"][WORK_ID_LABEL]
    manifests = [
        _marked(_manifest(item, f"spec.workload.manifests[{position}]"), identity)
        for position, item in enumerate(workload["manifests"])
    ]
    return obj | {"spec": spec | {"workload": workload | {"manifests": manifests}}}


def check_deletion(old: Mapping[str, Any]) -> None:
    """Raises Refusal where a label of the stored object protects it from being deleted."""
    labels = (old.get("metadata") or {}).get("labels") or {}
    if labels.get(DELETION_PROTECTED_LABEL) == DELETION_PROTECTED_ALWAYS:
        raise Refusal(f"This resource is protected: remove its label {DELETION_PROTECTED_LABEL} before deleting it")


def _manifest(value: Any, field: str) -> Manifest:
    """The pruned manifest; one that an API server could not read back is refused."""
    if not is_readable(value):
        raise Refusal(f"{field}: the manifest has no kind, or an apiVersion that is none: write both", code=500)
    if value["kind"] == "Job":
        try:
            check_object("Job", value)
        except InterpretError as problem:
            raise Refusal(f"{field}: the manifest is no valid Job: {problem}", code=500) from None
    return prune(value)


def _marked(manifest: Manifest, identity: str) -> Manifest:
    """With the lists of labels and annotations that the control plane owns, the marks themselves included.

    Labels and annotations of a wrong type count as none; where metadata is no object there is no place to mark.
    """
    metadata = manifest.get("metadata")
    if metadata is None:
        metadata = {}
    elif not isinstance(metadata, dict):
        return manifest
    annotations, labels = map_of_text(metadata.get("annotations")), map_of_text(metadata.get("labels"))
    marks = {"annotations": annotations, "labels": {**labels, WORK_ID_LABEL: identity}}
    return record_managed(manifest | {"metadata": metadata | marks})

"""Makes a template of an object that a member runs."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.constants import CONFLICT_RESOLUTION_ANNOTATION, MANAGED_LABEL, WORK_ID_LABEL
from services._rules.interpreter.native.prune import prune

DELIVERY_LABELS: Final = (WORK_ID_LABEL, MANAGED_LABEL)
"""Labels by which a member's object belongs to a work."""


def template_of(found: Manifest) -> Manifest:
    """What the control plane is given: nothing that servers write, and the member's copy may be overwritten."""
    template = prune(found, hooks=())
    metadata = dict(template["metadata"])
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in DELIVERY_LABELS}
    annotations = dict(metadata.get("annotations") or {})
    annotations.setdefault(CONFLICT_RESOLUTION_ANNOTATION, "overwrite")
    metadata["annotations"] = annotations
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": metadata}


def claims_of_delivery(found: Manifest) -> tuple[str, ...]:
    """The labels of a member's object by which it belongs to a work."""
    labels = found["metadata"].get("labels") or {}
    return tuple(label for label in DELIVERY_LABELS if label in labels)

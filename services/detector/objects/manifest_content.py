"""Strips a manifest to its propagated content: without status and without server-managed metadata."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._rules.policies.change_set_marks import CHANGE_SET

SERVER_FIELDS: Final = ("managedFields", "resourceVersion", "selfLink")


def stripped(manifest: Manifest) -> Manifest:
    """An object without status and what servers keep in its metadata: what a fact compares and stores."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in SERVER_FIELDS}
    annotations = metadata.get("annotations")
    if annotations and CHANGE_SET in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != CHANGE_SET}
    return {name: value for name, value in manifest.items() if name not in ("status", "metadata")} | {
        "metadata": metadata
    }


def unchanged(before: Manifest, manifest: Manifest) -> bool:
    """Whether two states of an object differ in nothing but status and server-side metadata."""
    old, new = before["metadata"], manifest["metadata"]
    if old.get("uid") != new.get("uid") or ("deletionTimestamp" in old) != ("deletionTimestamp" in new):
        return False
    if old.get("labels") != new.get("labels") or old.get("annotations") != new.get("annotations"):
        return False
    if "generation" in new and old.get("generation") == new["generation"]:
        return True
    return stripped(before) == stripped(manifest)

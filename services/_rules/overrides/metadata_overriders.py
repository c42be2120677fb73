"""Overriders that change labels and annotations of the object itself (reference 03 §2.7)."""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.overrides.override_errors import StepError

Step = Callable[[Manifest], Manifest]


def metadata_step(item: Mapping[str, Any], field: str) -> Step:
    """Step of one labelsOverrider or annotationsOverrider; `field` is `labels` or `annotations`."""
    operator, values = item.get("operator", ""), item.get("value") or {}

    def apply(manifest: Manifest) -> Manifest:
        metadata = manifest.get("metadata")
        if not isinstance(metadata, dict):
            raise StepError(f"{field}Overrider at /metadata", "the object has no metadata")
        # A value of a wrong type reads as none, and adding puts a map in its place.
        present = _map_of_text(metadata.get(field))
        changed = _changed(present, operator, values)
        if changed == present:
            return manifest
        return manifest | {"metadata": metadata | {field: changed}}

    return apply


def _map_of_text(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()) else {}


def _changed(current: Mapping[str, str], operator: str, values: Mapping[str, str]) -> dict[str, str]:
    match operator:
        case "add":
            return {**current, **values}
        case "replace":
            return {key: values.get(key, value) for key, value in current.items()}
        case "remove":
            return {key: value for key, value in current.items() if key not in values}
        case _:
            return dict(current)

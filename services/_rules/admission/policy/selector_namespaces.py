"""Namespaces of resource selectors in namespaced policies: defaulted, and restricted to the policy's own."""

from collections.abc import Mapping
from typing import Any

from services._rules.kubernetes.validation.field_errors import FieldError, invalid


def with_selector_namespaces(spec: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The spec with the policy's namespace in every selector that names none."""
    selectors = spec.get("resourceSelectors")
    if not selectors:
        return spec
    filled = [item if item.get("namespace") else item | {"namespace": namespace} for item in selectors]
    return spec | {"resourceSelectors": filled}


def selector_namespaces(spec: Mapping[str, Any], namespace: str) -> list[FieldError]:
    """Selectors that reach outside of the policy's namespace."""
    return [
        invalid(
            f"spec.resourceSelectors[{position}].namespace",
            item.get("namespace") or "",
            f"must be {namespace!r}, that of the policy",
        )
        for position, item in enumerate(spec.get("resourceSelectors") or ())
        if (item.get("namespace") or "") != namespace
    ]

"""Decides whether a definition in a group that belongs to Kubernetes has the approval annotation it needs."""

from typing import Final
from urllib.parse import urlsplit

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, invalid, required

ANNOTATION: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_FIELD: Final = f"metadata.annotations[{ANNOTATION}]"


def is_protected(group: str) -> bool:
    """Return whether a group belongs to the Kubernetes project."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval(crd: Manifest) -> tuple[str, str]:
    """Return the reason of the conformance condition and its message."""
    value = (crd["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    if not value:
        text = f'protected groups must have approval annotation "{ANNOTATION}", {_SEE}'
        return "MissingAnnotation", text
    if value.startswith("unapproved"):
        return "UnapprovedAnnotation", f'not approved: "{value}"'
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme and parts.netloc:
        return "ApprovedAnnotation", f"approved in {value}"
    text = (
        f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a reason starting with '
        f'"unapproved", {_SEE}'
    )
    return "InvalidAnnotation", text


def check_approval(crd: Manifest, old: Manifest | None) -> list[FieldError]:
    """Return what is wrong with the annotation; an update that does not change it is let through."""
    if not is_protected(crd["spec"].get("group", "")):
        return []
    reason, text = approval(crd)
    if old is not None and approval(old) == (reason, text):
        return []
    if reason == "MissingAnnotation":
        return [required(_FIELD, text)]
    if reason == "InvalidAnnotation":
        return [invalid(_FIELD, crd["metadata"]["annotations"][ANNOTATION], text)]
    return []

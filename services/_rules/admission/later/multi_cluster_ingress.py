"""Rules of MultiClusterIngress: those of a Kubernetes Ingress (docs/sources.md#admission)."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.json_patch import without_nulls
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError
from services._rules.kubernetes.validation.field_rules import apply, each, inside, text
from services._rules.kubernetes.validation.ingress_rules import INGRESS_RULES, one_class
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER

_BACKEND: Final = inside(
    "resource",
    text("apiGroup", names.subdomain),
    text("kind", names.path_segment),
    text("name", names.path_segment),
)
_RULES: Final = (
    *INGRESS_RULES,
    inside(
        "spec",
        inside("defaultBackend", _BACKEND),
        each("rules", inside("http", each("paths", inside("backend", _BACKEND)))),
        each("tls", text("secretName", names.subdomain)),
    ),
)


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with an ingress for several clusters."""
    meta = obj.get("metadata") or {}
    found: list[FieldError] = []
    if old is not None:
        found += metadata.check_change(meta, old.get("metadata") or {})
        found += apply(LOAD_BALANCER, without_nulls(obj.get("status") or {}), "status")
    found += metadata.check_create(meta, names.subdomain, namespaced=True)
    ingress = without_nulls(obj)
    return found + apply(_RULES, ingress) + (one_class(ingress, "") if old is None else [])

"""Rules of MultiClusterService (docs/sources.md#admission)."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.kubernetes.patch.json_patch import without_nulls
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services._rules.kubernetes.validation.field_rules import (
    PORT_RANGE,
    apply,
    each,
    inside,
    listed,
    number,
    refused,
    text,
    unique,
)
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER

_CLUSTER: Final = text("name", formats.cluster_name, blank=True)
_RULES: Final = (
    inside(
        "spec",
        each("ports", text("name", names.label), unique("name"), number("port", 1, 65535, PORT_RANGE, absent=0)),
        each("types", listed(("CrossCluster", "LoadBalancer"))),
        refused("types", "must not contain more than one type", lambda spec: len(set(spec.get("types") or ())) > 1),
        each("providerClusters", _CLUSTER),
        each("consumerClusters", _CLUSTER),
    ),
)


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with a service for several clusters."""
    spec = obj.get("spec") or {}
    found: list[FieldError] = []
    types = spec.get("types") or []
    if old is not None:
        found += metadata.check_change(obj.get("metadata") or {}, old.get("metadata") or {})
        if types != ((old.get("spec") or {}).get("types") or []):
            found.append(invalid("spec.types", types, "is immutable: delete the service and create it again"))
        found += apply(LOAD_BALANCER, without_nulls(obj.get("status") or {}), "status")
    found += metadata.check_create(obj.get("metadata") or {}, names.dns1035, namespaced=True)
    return found + apply(_RULES, without_nulls(obj))

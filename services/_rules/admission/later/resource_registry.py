"""Rules of ResourceRegistry (docs/sources.md#admission)."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.policy.placement_rules import field_selector
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, each, invalid

_SCHEMES: Final = ("http", "https")


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with a registry."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    found: list[FieldError] = []
    if old is not None:
        found += metadata.check_change(meta, old.get("metadata") or {})
        if not meta.get("resourceVersion"):
            found.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    found += metadata.check_create(meta, names.subdomain, namespaced=False)
    found += field_selector(spec.get("targetCluster"), "spec.targetCluster")
    for position, selector in enumerate(spec.get("resourceSelectors") or ()):
        place = f"spec.resourceSelectors[{position}]"
        version, namespace = selector.get("apiVersion") or "", selector.get("namespace") or ""
        if version.count("/") > 1:
            found.append(invalid(f"{place}.apiVersion", version, "write version or group/version"))
        if namespace:
            found += each(f"{place}.namespace", namespace, names.label(namespace))
    backend = (spec.get("backendStore") or {}).get("openSearch") or {}
    for position, address in enumerate(backend.get("addresses") or ()):
        url = formats.Url(address or "")
        if url.error or url.scheme not in _SCHEMES or not url.host:
            place = f"spec.backendStore.openSearch.addresses[{position}]"
            found.append(invalid(place, address, "must be an http or https URL with a host"))
    return found

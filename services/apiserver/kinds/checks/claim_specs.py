"""Checks of claims of volumes, as objects and as templates in pods and StatefulSets."""

from __future__ import annotations

from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, forbidden, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    apply,
    choice,
    every,
    formed,
    inside,
    listed,
    needed,
    text,
    valid,
)
from services.apiserver.kinds.checks.affinities import good_selector

_ALONE: Final = "ReadWriteOncePod"
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ALONE)

is_positive = valid(lambda value: quantity.parse(value).nano > 0, "must be greater than zero")
"""Return an error for an amount that is not above zero."""
KNOWN_MODES = every("accessModes", listed(_MODES))
"""Rule of the access modes of a volume or a claim."""
CLASS = (text("storageClassName", names.subdomain), choice("volumeMode", ("Block", "Filesystem")))
"""Rules of the class and the mode of a volume or a claim."""


def size_of(spec: Manifest) -> Any:
    """Return the size that a claim asks for; None when it does not."""
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _sized(spec: Manifest, path: str) -> list[FieldError]:
    size, field = size_of(spec), f"{path}.resources[storage]"
    return [required(field)] if size is None else list(is_positive(size, field))


def _one_pod_alone(spec: Manifest, path: str) -> Errors:
    modes = spec.get("accessModes") or []
    if _ALONE in modes and set(modes) != {_ALONE}:
        yield forbidden(f"{path}.accessModes", f"may not use {_ALONE} with other access modes")


def _data_source(source: Manifest, path: str) -> Errors:
    yield from needed("name", "kind")(source, path)
    if group := source.get("apiGroup"):
        yield from formed(names.subdomain)(group, f"{path}.apiGroup")
    elif source.get("kind", "") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, source.get("kind", ""), text)


_REFERENCE: Final = ("apiGroup", "kind", "name")


def _one_source(spec: Manifest, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
        yield invalid(path, f"{path}.dataSource", text)
    elif any((source.get(name) or "") != (reference.get(name) or "") for name in _REFERENCE):
        yield invalid(path, f"{path}.dataSource", "must match dataSourceRef")


CLAIM = (
    inside("selector", good_selector),
    needed("accessModes", detail="at least 1 access mode is required"),
    KNOWN_MODES,
    _one_pod_alone,
    _sized,
    *CLASS,
    inside("dataSource", _data_source),
    inside("dataSourceRef", _data_source, text("namespace", names.label)),
    _one_source,
    text("volumeAttributesClassName", names.subdomain),
)
"""Rules of the spec of a claim."""


_KNOWN_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def drop_unknown_source(spec: Manifest) -> None:
    """Take away a source of data that only the newer of the two fields can name, where it is not used."""
    source = spec.get("dataSource")
    if source is None or spec.get("dataSourceRef") is not None:
        return
    if (source.get("apiGroup") or "", source.get("kind", "")) not in _KNOWN_SOURCES:
        del spec["dataSource"]


def settle_source(spec: Manifest) -> None:
    """Fill in, of the two fields that name the source of a claim's data, the one that is missing."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in _REFERENCE if name in reference}


_SHOWN: Final = {"uid": "uID"}
_OF_TEMPLATES: Final = ("labels", "annotations")
_METADATA: Final = (inside("annotations", meta.annotations), inside("labels", meta.labels))


def claim_template(template: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the template of the claim of a pod's own volume."""
    metadata, field = template.get("metadata") or {}, f"{path}.metadata"
    found = apply(_METADATA, metadata, field)
    for name, value in metadata.items():
        if name not in _OF_TEMPLATES and value is not None:
            found.append(forbidden(f"{field}.{_SHOWN.get(name, name)}", "cannot be set for an ephemeral volume"))
    return [*found, *apply(CLAIM, template.get("spec") or {}, f"{path}.spec")]

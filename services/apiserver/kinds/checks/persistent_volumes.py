"""Persistent volumes and claims: what their specs hold, by themselves and within a VolumeAttachment."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    choice,
    every,
    given,
    inside,
    listed,
    lookup,
    needed,
    only_if,
    text,
    unwanted,
    valid,
)
from services.apiserver.kinds.checks.affinities import NODE_SELECTOR, label_selector
from services.apiserver.kinds.checks.resources import amount
from services.apiserver.kinds.checks.volumes import SOURCE

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")

_positive = valid(lambda value: quantity.parse(value).nano > 0, "must be greater than zero")
_MODES = (
    needed("accessModes", detail="at least 1 access mode is required"),
    every("accessModes", listed((*ACCESS_MODES, "ReadWriteOncePod"), shown=ACCESS_MODES)),
)
_CLASS = (text("storageClassName", names.subdomain), choice("volumeMode", ("Block", "Filesystem")))


def size_of(spec: Manifest) -> Any:
    """Return the size that a claim asks for; None when it does not."""
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _sized(spec: Manifest, path: str) -> list[FieldError]:
    size, field = size_of(spec), f"{path}.resources[storage]"
    return [required(field)] if size is None else amount(size, field) + _positive(size, field)


def _data_source(source: Manifest, path: str) -> Errors:
    yield from needed("name", "kind")(source, path)
    if not source.get("apiGroup") and source.get("kind", "") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, source.get("kind", ""), text)


CLAIM = (inside("selector", label_selector), *_MODES, _sized, *_CLASS, inside("dataSource", _data_source))


def basic_amounts(values: Manifest, path: str) -> Errors:
    """Yield an error for each amount below zero."""
    for name, value in values.items():
        number = quantity.parse(value).nano // quantity.NANO
        if number < 0:
            yield invalid(f"{path}[{name}]", number, "must be a valid resource quantity")


def _capacity(spec: Manifest, path: str) -> list[FieldError]:
    capacity, field = spec.get("capacity") or {}, f"{path}.capacity"
    found = [] if capacity else [required(field)]
    if list(capacity) != ["storage"]:
        found.append(not_supported(field, sorted(capacity), ("storage",)))
    found += basic_amounts(capacity, field)
    for name, value in capacity.items():
        found += _positive(value, f"{field}[{name}]")
    return found


_NO_NODES = "must specify required node constraints"


VOLUME = (
    needed("accessModes"),
    _MODES[1],
    _capacity,
    choice("persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")),
    SOURCE,
    unwanted(
        "persistentVolumeReclaimPolicy",
        "may not be 'recycle' for a hostPath mount of '/'",
        lambda spec: lookup(spec, "hostPath.path") == "/" and spec["persistentVolumeReclaimPolicy"] == "Recycle",
    ),
    inside("nodeAffinity", inside("required", *NODE_SELECTOR), given("required", _NO_NODES)),
    only_if(lambda spec: "local" in spec, given("nodeAffinity", "Local volume requires node affinity")),
    *_CLASS,
)


_INLINE = "may not be specified in the context of inline volumes"


def inline(spec: Manifest, path: str) -> Errors:
    """Yield what is wrong with a volume that an attachment describes itself."""
    yield from (
        forbidden(f"{path}.{name}", _INLINE) for name in ("claimRef", "capacity", "nodeAffinity") if spec.get(name)
    )
    if "csi" not in spec:
        yield required(f"{path}.csi", "has to be specified in the context of inline volumes")
    yield from needed("accessModes")(spec, path)
    yield from _MODES[1](spec, path)
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")

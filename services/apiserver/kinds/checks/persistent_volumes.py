"""Persistent volumes and claims: what their specs hold, by themselves and within a VolumeAttachment."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
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
    Rules,
    apply,
    choice,
    every,
    given,
    inside,
    listed,
    needed,
    only_if,
    text,
    unwanted,
    valid,
)
from services.apiserver.kinds.checks.affinities import NODE_SELECTOR, label_selector
from services.apiserver.kinds.checks.volumes import SOURCES, driver, one_source

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
    return [required(field)] if size is None else list(_positive(size, field))


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
_SECRET = inside("secretRef", needed("name", "namespace"))
_CSI_SECRETS = tuple(
    inside(name, text("name", names.subdomain, need=""), text("namespace", names.label, need=""))
    for name in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeStageSecretRef",
        "nodeExpandSecretRef",
    )
)


def _namespace_of_endpoints(source: Manifest, path: str) -> Errors:
    name, field = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if name == "":
        yield invalid(field, name, "if the endpointnamespace is set, it must be a valid namespace name")
    elif name is not None:
        yield from (invalid(field, name, problem) for problem in names.label(name))


def _namespace_of_secret(source: Manifest, path: str) -> Errors:
    if source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _initiators(source: Manifest, path: str) -> Errors:
    """What is wrong with an iSCSI volume; a name that begins wrongly is only said to be of a wrong form."""
    for error in apply(SOURCES["iscsi"], source, path):
        wrong = error.detail.startswith("must be valid format")
        yield invalid(error.field, error.bad_value, "must be valid format") if wrong else error
    yield from inside("secretRef", needed("name"))(source, path)


_SOURCES: Mapping[str, Rules] = {
    **SOURCES,
    "azureFile": (*SOURCES["azureFile"], _namespace_of_secret),
    "cinder": (needed("volumeID"), _SECRET),
    "csi": (inside("driver", driver, absent=""), needed("volumeHandle"), *_CSI_SECRETS),
    "glusterfs": (*SOURCES["glusterfs"], _namespace_of_endpoints),
    "iscsi": (_initiators,),
    "storageos": (*SOURCES["storageos"][:2], _SECRET),
}
"""Rules of the sources of persistent volumes, which name the namespaces of Secrets where those of pods do not."""
_SOURCE = one_source(_SOURCES)
_MOUNTED = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "quobyte",
    "rbd",
    "vsphereVolume",
)
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def whole_volume(obj: Manifest, _: str) -> Errors:
    """Yield what is wrong with how a volume's name and annotations go with its source."""
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    if _MOUNT_OPTIONS in (metadata.get("annotations") or {}) and not any(name in spec for name in _MOUNTED):
        text = "may not specify mount options for this volume type"
        yield forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", text)
    disk = spec.get("iscsi") or {}
    portal = disk.get("targetPortal", "")
    if "initiatorName" in disk and len(f"{metadata.get('name', '')}:{portal}") > 64:
        yield invalid("spec.iscsi.targetportal", portal, _PORTAL)


def _recycles_root(spec: Manifest) -> bool:
    path = (spec.get("hostPath") or {}).get("path", "")
    root = path and posixpath.normpath(path).strip("/") in ("", ".") and path.startswith("/")
    return bool(root) and spec.get("persistentVolumeReclaimPolicy") == "Recycle"


VOLUME = (
    needed("accessModes"),
    _MODES[1],
    _capacity,
    choice("persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")),
    _SOURCE,
    unwanted(
        "persistentVolumeReclaimPolicy",
        "may not be 'recycle' for a hostPath mount of '/'",
        _recycles_root,
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
    if spec.get("storageClassName"):
        yield forbidden(f"{path}.storageClassName", _INLINE)
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(f"{path}.volumeMode", text)
    yield from _SOURCE(spec, path)
    yield from needed("accessModes")(spec, path)
    yield from _MODES[1](spec, path)
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")

"""Persistent volumes and claims: what their specs hold, by themselves and within a VolumeAttachment."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

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
    each,
    given,
    inside,
    needed,
    only_if,
    text,
    unwanted,
)
from services.apiserver.kinds.checks.affinities import NODE_SELECTOR, label_values
from services.apiserver.kinds.checks.claim_specs import CLASS, KNOWN_MODES, is_positive
from services.apiserver.kinds.checks.volumes import SEVERAL, SOURCES, driver, one_source


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
        found += is_positive(value, f"{field}[{name}]")
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


_IN_ORDER = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""The sources in the order in which the first of several is the one that counts."""
_SOURCES: Mapping[str, Rules] = {
    **{name: SOURCES[name] for name in _IN_ORDER},
    "azureFile": (*SOURCES["azureFile"], _namespace_of_secret),
    "cinder": (needed("volumeID"), _SECRET),
    "csi": (inside("driver", driver, absent=""), needed("volumeHandle"), *_CSI_SECRETS),
    "glusterfs": (*SOURCES["glusterfs"], _namespace_of_endpoints),
    "iscsi": (_initiators,),
    "storageos": (*SOURCES["storageos"][:2], _SECRET),
}
"""Rules of the sources of persistent volumes, which name the namespaces of Secrets where those of pods do not."""
_ONE_SOURCE = one_source(_SOURCES)


def _source(spec: Manifest, path: str) -> list[FieldError]:
    found = _ONE_SOURCE(spec, path)
    if forbidden(f"{path}.flexVolume", SEVERAL) in found:
        # This one may come beside others, and is looked into then.
        found.remove(forbidden(f"{path}.flexVolume", SEVERAL))
        found += apply(_SOURCES["flexVolume"], spec["flexVolume"], f"{path}.flexVolume")
    return found


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


def _attributes_class(spec: Manifest, path: str) -> Errors:
    name, field = spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName"
    if name is None:
        return
    if not name:
        yield required(field, "an empty string is disallowed")
    else:
        yield from (invalid(field, name, problem) for problem in names.subdomain(name))
    if "csi" not in spec:
        yield required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


VOLUME = (
    needed("accessModes"),
    KNOWN_MODES,
    _capacity,
    choice("persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")),
    _source,
    unwanted(
        "persistentVolumeReclaimPolicy",
        "may not be 'recycle' for a hostPath mount of '/'",
        _recycles_root,
    ),
    inside("nodeAffinity", inside("required", *NODE_SELECTOR), given("required", _NO_NODES)),
    only_if(lambda spec: "local" in spec, given("nodeAffinity", "Local volume requires node affinity")),
    *CLASS,
    _attributes_class,
)


GOOD_NODES = inside(
    "spec",
    inside("nodeAffinity", inside("required", each("nodeSelectorTerms", each("matchExpressions", label_values)))),
)
"""Rule of a new volume beside those of its spec."""
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
    yield from _source(spec, path)
    yield from needed("accessModes")(spec, path)
    yield from KNOWN_MODES(spec, path)
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")

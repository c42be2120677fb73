"""Checks of volumes of a pod and of the sources shared with persistent volumes."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, forbidden, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    choice,
    each,
    inside,
    needed,
    number,
    one_of,
    text,
    unique,
    valid,
)
from services.apiserver.kinds.checks.containers import MAP_ENTRIES, no_dots

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_DOWNWARD_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_SEVERAL = "may not specify more than 1 volume type"


def _mode(name: str) -> Check:
    return number(name, 0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def _relative(path: str, field: str) -> Errors:
    if not path:
        yield required(field)
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from no_dots(path, field)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        yield invalid(field, path, "must not start with '..'")


def _field_path(path: str, field: str) -> Errors:
    if not path:
        yield required(field)
    elif path not in _DOWNWARD_PATHS and not path.startswith(MAP_ENTRIES):
        yield invalid(field, path, f"error converting fieldPath: field label not supported: {path}")


_ABSOLUTE = valid(lambda path: path[:1] in ("", "/"), "must be an absolute path")
_RESOURCE_REF = inside("resourceFieldRef", needed("resource", "containerName"))


def _reference(item: Manifest, field: str) -> Errors:
    given = [name for name in ("fieldRef", "resourceFieldRef") if name in item]
    if not given:
        yield required(field, "one of fieldRef and resourceFieldRef must be specified")
    elif len(given) == 2:
        yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    else:
        yield from _RESOURCE_REF(item, field)


_PATH = inside("path", _relative, absent="")
_DOWNWARD = each(
    "items",
    _PATH,
    inside("fieldRef", inside("fieldPath", _field_path, absent="")),
    _reference,
    _mode("mode"),
)
_KEYS = each("items", needed("key"), _PATH, _mode("mode"))
_TOKEN = (
    number("expirationSeconds", 600, detail="may not specify a duration less than 10 minutes"),
    number("expirationSeconds", most=1 << 32, detail="may not specify a duration larger than 2^32 seconds"),
    _PATH,
)


def _no_account(_: Manifest, field: str) -> list[FieldError]:
    return [forbidden(field, "must not be specified when serviceAccountName is not set")]


def _projected(*token: Check) -> Check:
    members: dict[str, Rules] = {
        "secret": (needed("name"), _KEYS),
        "configMap": (needed("name"), _KEYS),
        "downwardAPI": (_DOWNWARD,),
        "serviceAccountToken": (*token, *_TOKEN),
    }
    others = ("clusterTrustBundle", "podCertificate")
    return each("sources", one_of(members, "must specify a volume type", _SEVERAL, besides=others))


SOURCES: dict[str, Rules] = {
    "emptyDir": (),
    "hostPath": (needed("path"), inside("path", no_dots), choice("type", _HOST_PATH_TYPES)),
    "gitRepo": (needed("repository"),),
    "gcePersistentDisk": (needed("pdName"),),
    "awsElasticBlockStore": (needed("volumeID"),),
    "secret": (needed("secretName"), _mode("defaultMode"), _KEYS),
    "nfs": (
        needed("server", "path"),
        inside("path", _ABSOLUTE),
    ),
    "iscsi": (needed("targetPortal", "iqn"),),
    "glusterfs": (needed("endpoints", "path"),),
    "flocker": (),
    "persistentVolumeClaim": (needed("claimName"),),
    "rbd": (needed("monitors", "image"),),
    "cephfs": (needed("monitors"),),
    "cinder": (needed("volumeID"),),
    "quobyte": (needed("registry", "volume"),),
    "downwardAPI": (_mode("defaultMode"), _DOWNWARD),
    "fc": (),
    "flexVolume": (needed("driver"),),
    "configMap": (needed("name"), _mode("defaultMode"), _KEYS),
    "azureFile": (needed("secretName", "shareName"),),
    "vsphereVolume": (needed("volumePath"),),
    "photonPersistentDisk": (needed("pdID"),),
    "portworxVolume": (needed("volumeID"),),
    "azureDisk": (needed("diskName", "diskURI"),),
    "storageos": (),
    "projected": (_mode("defaultMode"), _projected()),
    "scaleIO": (needed("gateway", "system", "volumeName"),),
    "csi": (needed("driver"),),
    "local": (needed("path"),),
    "ephemeral": (needed("volumeClaimTemplate"),),
    "image": (),
}
_WITHOUT_ACCOUNT = {**SOURCES, "projected": (_mode("defaultMode"), _projected(_no_account))}
_NAME = (text("name", names.label, need=""), unique("name"))
_MISSING = "must specify a volume type"
SOURCE = one_of(SOURCES, _MISSING, _SEVERAL)
_VOLUMES = each("volumes", SOURCE, *_NAME)
_VOLUMES_WITHOUT_ACCOUNT = each("volumes", one_of(_WITHOUT_ACCOUNT, _MISSING, _SEVERAL), *_NAME)


def volumes(spec: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the volumes of a pod spec."""
    return (_VOLUMES if spec.get("serviceAccountName") else _VOLUMES_WITHOUT_ACCOUNT)(spec, field)

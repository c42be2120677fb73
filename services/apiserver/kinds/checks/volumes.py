"""Checks of volumes of a pod and of the sources shared with persistent volumes."""

from __future__ import annotations

import ipaddress

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
MODE_RANGE = "must be a number between 0 and 0777 (octal), both inclusive"
ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
DOWNWARD_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
MIN_TOKEN_SECONDS, MAX_TOKEN_SECONDS = 600, 1 << 32


def is_address(value: str) -> bool:
    """Return whether the value is an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def address(value: str, field: str) -> list[FieldError]:
    """Return an error when the value is no IP address."""
    return [] if is_address(value) else [invalid(field, value, ADDRESS_TEXT)]


def volumes(items: list[Manifest], field: str, *, has_account: bool) -> tuple[dict[str, str], list[FieldError]]:
    """Return the source of each volume by name, and what is wrong with the volumes."""
    known: dict[str, str] = {}
    found: list[FieldError] = []
    for index, item in enumerate(items):
        place, name = f"{field}[{index}]", item.get("name", "")
        found += source(item, place, has_account=has_account)
        if not name:
            found.append(required(f"{place}.name"))
        else:
            found += [invalid(f"{place}.name", name, text) for text in names.label(name)]
            if name in known:
                found.append(duplicate(f"{place}.name", name))
        known[name] = next((key for key in item if key != "name"), "")
    return known, found


def source(item: Manifest, field: str, *, has_account: bool = True) -> list[FieldError]:
    """Return what is wrong with the one source of a volume."""
    sources = [key for key in SOURCES if key in item]
    if not sources:
        return [required(field, "must specify a volume type")]
    found: list[FieldError] = []
    for number, key in enumerate(sources):
        if number:
            found.append(forbidden(f"{field}.{key}", "may not specify more than 1 volume type"))
            continue
        found += _source(key, item[key], f"{field}.{key}", has_account=has_account)
    return found


SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cephfs",
    "cinder",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "local",
    "ephemeral",
    "image",
)
_NEEDED: dict[str, tuple[str, ...]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "csi": ("driver",),
    "local": ("path",),
    "hostPath": ("path",),
    "secret": ("secretName",),
}


def _source(key: str, value: Manifest, field: str, *, has_account: bool) -> list[FieldError]:
    found: list[FieldError] = [required(f"{field}.{name}") for name in _NEEDED.get(key, ()) if not value.get(name)]
    if key == "configMap" and not value.get("name"):
        found.append(required(f"{field}.name"))
    if key == "hostPath":
        found += _no_dots(value.get("path", ""), f"{field}.path")
        kind = value.get("type") or ""
        if kind not in HOST_PATH_TYPES:
            found.append(not_supported(f"{field}.type", kind, HOST_PATH_TYPES))
    if key == "nfs" and value.get("path") and not value["path"].startswith("/"):
        found.append(invalid(f"{field}.path", value["path"], "must be an absolute path"))
    if key in ("configMap", "secret", "downwardAPI", "projected"):
        found += _mode(value.get("defaultMode"), f"{field}.defaultMode")
    if key in ("configMap", "secret"):
        found += _key_paths(value.get("items") or [], f"{field}.items")
    if key == "downwardAPI":
        for index, item in enumerate(value.get("items") or []):
            found += _downward(item, f"{field}.items[{index}]")
    if key == "projected":
        found += _projected(value, field, has_account=has_account)
    if key == "ephemeral" and not value.get("volumeClaimTemplate"):
        found.append(required(f"{field}.volumeClaimTemplate"))
    return found


def _no_dots(path: str, field: str) -> list[FieldError]:
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def _mode(mode: int | None, field: str) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(field, mode, MODE_RANGE)]


def _relative(path: str, field: str) -> list[FieldError]:
    if not path:
        return [required(field)]
    found: list[FieldError] = []
    if path.startswith("/"):
        found.append(invalid(field, path, "must be a relative path"))
    found += _no_dots(path, field)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        found.append(invalid(field, path, "must not start with '..'"))
    return found


def _key_paths(items: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        if not item.get("key"):
            found.append(required(f"{place}.key"))
        found += _relative(item.get("path", ""), f"{place}.path")
        found += _mode(item.get("mode"), f"{place}.mode")
    return found


def _downward(item: Manifest, field: str) -> list[FieldError]:
    found = _relative(item.get("path", ""), f"{field}.path")
    field_ref, resource_ref = item.get("fieldRef"), item.get("resourceFieldRef")
    if field_ref is not None:
        path = field_ref.get("fieldPath", "")
        if not path:
            found.append(required(f"{field}.fieldRef.fieldPath"))
        elif path not in DOWNWARD_PATHS and not path.startswith(("metadata.annotations['", "metadata.labels['")):
            found.append(
                invalid(
                    f"{field}.fieldRef.fieldPath",
                    path,
                    f"error converting fieldPath: field label not supported: {path}",
                )
            )
        if resource_ref is not None:
            found.append(
                invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
            )
    elif resource_ref is not None:
        if not resource_ref.get("resource"):
            found.append(required(f"{field}.resourceFieldRef.resource"))
        if not resource_ref.get("containerName"):
            found.append(required(f"{field}.resourceFieldRef.containerName"))
    else:
        found.append(required(field, "one of fieldRef and resourceFieldRef must be specified"))
    return [*found, *_mode(item.get("mode"), f"{field}.mode")]


def _projected(value: Manifest, field: str, *, has_account: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(value.get("sources") or []):
        place = f"{field}.sources[{index}]"
        kinds = [name for name in ("secret", "configMap", "downwardAPI", "serviceAccountToken") if name in item]
        if not kinds and "clusterTrustBundle" not in item and "podCertificate" not in item:
            found.append(required(place, "must specify a volume type"))
        for number, name in enumerate(kinds):
            body = item[name]
            if number:
                found.append(forbidden(f"{place}.{name}", "may not specify more than 1 volume type"))
                continue
            if name in ("secret", "configMap"):
                if not body.get("name"):
                    found.append(required(f"{place}.{name}.name"))
                found += _key_paths(body.get("items") or [], f"{place}.{name}.items")
            if name == "downwardAPI":
                for position, entry in enumerate(body.get("items") or []):
                    found += _downward(entry, f"{place}.downwardAPI.items[{position}]")
            if name == "serviceAccountToken":
                found += _token(body, f"{place}.serviceAccountToken", has_account=has_account)
    return found


def _token(value: Manifest, field: str, *, has_account: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if not has_account:
        found.append(forbidden(field, "must not be specified when serviceAccountName is not set"))
    seconds = value.get("expirationSeconds", 3600)
    if seconds < MIN_TOKEN_SECONDS:
        found.append(invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > MAX_TOKEN_SECONDS:
        found.append(
            invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    return [*found, *_relative(value.get("path", ""), f"{field}.path")]

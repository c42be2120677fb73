"""Checks of what a container mounts: volumes as file systems and as devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def no_dots(path: str, field: str) -> list[FieldError]:
    """Return an error when a path has a step upwards."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def descending(path: str, field: str) -> list[FieldError]:
    """Return what is wrong with a path that has to stay below a directory."""
    found = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + no_dots(path, field)


def mounted(container: Manifest, place: str, volumes: Mapping[str, Manifest]) -> list[FieldError]:
    """Return what is wrong with the mounts and devices of a container in a pod with these volumes."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    found: list[FieldError] = []
    if mounts:
        found += _mounts(mounts, devices, f"{place}.volumeMounts", volumes)
        found += [error for mount in mounts for error in _manner(mount, container, f"{place}.volumeMounts")]
    if devices:
        found += _devices(devices, mounts, f"{place}.volumeDevices", volumes)
    return found


def _mounts(mounts: list[Manifest], devices: list[Manifest], place: str, volumes: Mapping[str, Manifest]) -> Errors:
    paths: set[str] = set()
    taken = {item.get("name", ""): item.get("devicePath", "") for item in devices}
    for index, mount in enumerate(mounts):
        name, path, field = mount.get("name", ""), mount.get("mountPath", ""), f"{place}[{index}]"
        if not name:
            yield required(f"{field}.name")
        if name not in volumes:
            yield not_found(f"{field}.name", name)
        if not path:
            yield required(f"{field}.mountPath")
        if path in paths:
            yield invalid(f"{field}.mountPath", path, "must be unique")
        paths.add(path)
        if name in taken:
            yield invalid(f"{field}.name", name, "must not already exist in volumeDevices")
        if path in taken.values():
            yield invalid(f"{field}.mountPath", path, "must not already exist as a path in volumeDevices")
        if mount.get("subPath") and (other := mount.get("subPathExpr")):
            yield invalid(f"{field}.subPathExpr", other, "subPathExpr and subPath are mutually exclusive")
        if "recursiveReadOnly" in mount:
            yield from _recursive(mount, f"{field}.recursiveReadOnly")


def _manner(mount: Manifest, container: Manifest, place: str) -> Errors:
    """Yield what is wrong with the way a volume is mounted; the errors name the list, not the mount."""
    for name in ("subPath", "subPathExpr"):
        if path := mount.get(name):
            yield from descending(path, f"{place}.{name}")
    propagation, field = mount.get("mountPropagation"), f"{place}.mountPropagation"
    if propagation is None:
        return
    if propagation not in _PROPAGATIONS:
        yield not_supported(field, propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        yield forbidden(field, "Bidirectional mount propagation is available only to privileged containers")


def _recursive(mount: Manifest, field: str) -> Errors:
    mode = mount["recursiveReadOnly"]
    if mode not in _RECURSIVE:
        yield not_supported(field, mode, _RECURSIVE)
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            yield forbidden(field, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            yield forbidden(field, "may only be specified when mountPropagation is None or not specified")


def _devices(devices: list[Manifest], mounts: list[Manifest], place: str, volumes: Mapping[str, Manifest]) -> Errors:
    names: set[str] = set()
    paths: set[str] = set()
    taken = {item.get("name", ""): item.get("mountPath", "") for item in mounts}
    for index, device in enumerate(devices):
        name, path, field = device.get("name", ""), device.get("devicePath", ""), f"{place}[{index}]"
        if not name:
            yield required(f"{field}.name")
        if name in names:
            yield invalid(f"{field}.name", name, "must be unique")
        volume = volumes.get(name)
        if volume is None:
            yield not_found(f"{field}.name", name)
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{field}.name", name, text)
        if not path:
            yield required(f"{field}.devicePath")
        if path in paths:
            yield invalid(f"{field}.devicePath", path, "must be unique")
        if no_dots(path, field):
            yield invalid(f"{field}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in taken:
            yield invalid(f"{field}.name", name, "must not already exist in volumeMounts")
        if path in taken.values():
            yield invalid(f"{field}.devicePath", path, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)

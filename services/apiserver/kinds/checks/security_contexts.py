"""Checks of security contexts of pods and containers: identities, sysctls, seccomp profiles, privileges."""

from __future__ import annotations

import re
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid, not_supported, required

_HIGHEST: Final = 2**31 - 1
_SYSCTL_LENGTH: Final = 253
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_TEXT: Final = f"({_SYSCTL_PART}\\.)*{_SYSCTL_PART}"
_SYSCTL: Final = re.compile(f"{_SYSCTL_PART}([./]{_SYSCTL_PART})*")
_GROUP_CHANGES: Final = ("Always", "OnRootMismatch")
_SECCOMP: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def pod(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the security context of a pod spec, `field` being the place of the spec."""
    context, place = value.get("securityContext") or {}, f"{field}.securityContext"
    found = _host_network(value, field) if value.get("hostNetwork") else []
    found += _identities(context, ("fsGroup", "runAsUser", "runAsGroup"), place)
    for index, group in enumerate(context.get("supplementalGroups") or []):
        found += _identity(group, f"{place}.supplementalGroups[{index}]")
    if value.get("shareProcessNamespace") and value.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid(f"{place}.shareProcessNamespace", True, text))
    for index, item in enumerate(context.get("sysctls") or []):
        name, where = item.get("name", ""), f"{place}.sysctls[{index}].name"
        if not name:
            found.append(required(where))
        elif len(name) > _SYSCTL_LENGTH or _SYSCTL.fullmatch(name) is None:
            text = f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL_TEXT}"
            found.append(invalid(where, name, text))
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in _GROUP_CHANGES:
        found.append(not_supported(f"{place}.fsGroupChangePolicy", change, _GROUP_CHANGES))
    return found + _seccomp(context, place)


def container(value: Manifest, field: str, *, privileged_allowed: bool) -> list[FieldError]:
    """Return what is wrong with the security context of a container."""
    found: list[FieldError] = []
    if value.get("privileged") and not privileged_allowed:
        found.append(forbidden(f"{field}.privileged", "disallowed by cluster policy"))
    found += _identities(value, ("runAsUser", "runAsGroup"), field)
    mount = value.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        found.append(not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    found += _seccomp(value, field)
    if value.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        if value.get("privileged"):
            found.append(invalid(field, value, text))
        if "SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(invalid(field, value, text))
    return found


def _host_network(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for list_name in ("containers", "initContainers"):
        for index, item in enumerate(value.get(list_name) or []):
            for number, port in enumerate(item.get("ports") or []):
                if port.get("hostPort") != port.get("containerPort"):
                    place = f"{field}.{list_name}[{index}].ports[{number}].containerPort"
                    text = "must match `hostPort` when `hostNetwork` is true"
                    found.append(invalid(place, port.get("containerPort", 0), text))
    return found


def _identities(context: Manifest, names: tuple[str, ...], field: str) -> list[FieldError]:
    return [error for name in names for error in _identity(context.get(name), f"{field}.{name}")]


def _identity(number: int | None, field: str) -> list[FieldError]:
    if number is None or 0 <= number <= _HIGHEST:
        return []
    return [invalid(field, number, f"must be between 0 and {_HIGHEST}, inclusive")]


def _seccomp(context: Manifest, field: str) -> list[FieldError]:
    profile, place = context.get("seccompProfile"), f"{field}.seccompProfile"
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    found: list[FieldError] = []
    if not kind:
        found.append(required(f"{place}.type", "type is required when seccompProfile is set"))
    elif kind not in _SECCOMP:
        found.append(not_supported(f"{place}.type", kind, _SECCOMP))
    if kind != "Localhost":
        if local is not None:
            text = "can only be set when seccomp type is Localhost"
            found.append(invalid(f"{place}.localhostProfile", profile, text))
    elif local is None:
        found.append(required(f"{place}.localhostProfile", "must be set when seccomp type is Localhost"))
    elif local.startswith("/"):
        found.append(invalid(f"{place}.localhostProfile", local, "must be a relative path"))
    elif ".." in local.split("/"):
        found.append(invalid(f"{place}.localhostProfile", local, "must not contain '..'"))
    return found

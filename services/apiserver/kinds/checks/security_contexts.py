"""Checks of security contexts of pods and containers: identities, sysctls, profiles, privileges."""

from __future__ import annotations

import re
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
)
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    apply,
    choice,
    distinct,
    each,
    inside,
    number,
    only_if,
    text,
    valid,
)
from services.apiserver.kinds.checks.mounts import descending
from services.apiserver.kinds.checks.windows_options import WINDOWS

_HIGHEST: Final = 2**31 - 1
_IN_RANGE: Final = f"must be between 0 and {_HIGHEST}, inclusive"
_SYSCTL_LENGTH: Final = 253
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = f"^({_SYSCTL_PART}[\\./])*{_SYSCTL_PART}$"
_SYSCTL_TEXT: Final = f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL}"
_is_sysctl: Final = re.compile(_SYSCTL).fullmatch
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILE_LENGTH: Final = 4095


def _local_profile(profile: Manifest, field: str) -> Errors:
    place, local = f"{field}.localhostProfile", profile.get("localhostProfile")
    if profile.get("type", "") != "Localhost":
        if local is not None:
            yield invalid(place, profile, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield required(place, "must be set when seccomp type is Localhost")
    else:
        yield from descending(local, place)


def _app_armor_profile(profile: Manifest, field: str) -> Errors:
    place, local = f"{field}.localhostProfile", profile.get("localhostProfile")
    if profile.get("type") != "Localhost":
        if local is not None and profile.get("type") in _PROFILES:
            yield invalid(place, local, "can only be set when AppArmor type is Localhost")
    elif not local:
        yield required(place, "must be set when AppArmor type is Localhost")
    elif local != local.strip():
        yield invalid(place, local, "must not be padded with whitespace")
    if len(local or "") > _PROFILE_LENGTH:
        yield too_long(place, "", _PROFILE_LENGTH)


_SECCOMP = inside(
    "seccompProfile",
    choice("type", _PROFILES, need="type is required when seccompProfile is set"),
    _local_profile,
)
_APP_ARMOR = inside(
    "appArmorProfile",
    choice("type", _PROFILES, need="type is required when appArmorProfile is set"),
    _app_armor_profile,
)


_CANNOT = "cannot set `allowPrivilegeEscalation` to false and"
_NO_ESCALATION = (
    valid(lambda value: not value.get("privileged"), f"{_CANNOT} `privileged` to true"),
    valid(
        lambda value: "CAP_SYS_ADMIN" not in ((value.get("capabilities") or {}).get("add") or ()),
        f"{_CANNOT} `capabilities.Add` CAP_SYS_ADMIN",
    ),
)
CONTAINER: Rules = (
    number("runAsUser", 0, _HIGHEST, _IN_RANGE),
    number("runAsGroup", 0, _HIGHEST, _IN_RANGE),
    choice("procMount", ("Default", "Unmasked")),
    _SECCOMP,
    _APP_ARMOR,
    only_if(lambda value: value.get("allowPrivilegeEscalation") is False, *_NO_ESCALATION),
    WINDOWS,
)


def _sysctl(name: str) -> list[str]:
    return [] if len(name) <= _SYSCTL_LENGTH and _is_sysctl(name) else [_SYSCTL_TEXT]


_OF_POD: Final[Rules] = (
    *(number(name, 0, _HIGHEST, _IN_RANGE) for name in ("fsGroup", "runAsUser", "runAsGroup")),
    each("supplementalGroups", valid(lambda group: 0 <= group <= _HIGHEST, _IN_RANGE)),
    each(
        "sysctls",
        text("name", _sysctl, need=""),
        distinct(
            lambda item: item.get("name") or None,
            lambda item, field: duplicate(f"{field}.name", item["name"]),
        ),
    ),
    choice("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    choice("supplementalGroupsPolicy", ("Merge", "Strict")),
    choice("seLinuxChangePolicy", ("MountOption", "Recursive")),
    _SECCOMP,
    _APP_ARMOR,
    WINDOWS,
)


def pod(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the security context of a pod spec, `field` being the place of the spec."""
    context, place = value.get("securityContext"), f"{field}.securityContext"
    found = _host_network(value, field) if value.get("hostNetwork") else []
    if value.get("shareProcessNamespace") and value.get("hostPID"):
        message = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid(f"{place}.shareProcessNamespace", True, message))
    if value.get("hostUsers") is False:
        names = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
        unwanted = [shown for name, shown in names.items() if value.get(name)]
        found += [forbidden(f"{field}.{shown}", "when `pod.Spec.HostUsers` is false") for shown in unwanted]
    return found + apply(_OF_POD, context, place) if context else found


def _host_network(value: Manifest, field: str) -> list[FieldError]:
    return [
        invalid(
            f"{field}.containers[{index}].ports[{position}].hostPort",
            port.get("hostPort", 0),
            "must match `containerPort` when `hostNetwork` is true",
        )
        for index, item in enumerate(value.get("containers") or [])
        for position, port in enumerate(item.get("ports") or [])
        if port.get("hostPort") != port.get("containerPort")
    ]

"""Checks of security contexts of pods and containers: identities, sysctls, seccomp profiles, privileges."""

from __future__ import annotations

import re
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, required
from services._rules.kubernetes.validation.field_rules import apply, choice, each, inside, number, only_if, text, valid

_HIGHEST: Final = 2**31 - 1
_IN_RANGE: Final = f"must be between 0 and {_HIGHEST}, inclusive"
_SYSCTL_LENGTH: Final = 253
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_TEXT: Final = f"({_SYSCTL_PART}\\.)*{_SYSCTL_PART}"
_SYSCTL: Final = re.compile(f"{_SYSCTL_PART}([./]{_SYSCTL_PART})*")


def _sysctl(name: str) -> list[str]:
    if len(name) <= _SYSCTL_LENGTH and _SYSCTL.fullmatch(name):
        return []
    return [f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL_TEXT}"]


def _local_profile(profile: Manifest, field: str) -> Errors:
    place, local = f"{field}.localhostProfile", profile.get("localhostProfile")
    if profile.get("type", "") != "Localhost":
        if local is not None:
            yield invalid(place, profile, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield required(place, "must be set when seccomp type is Localhost")
    elif local.startswith("/"):
        yield invalid(place, local, "must be a relative path")
    elif ".." in local.split("/"):
        yield invalid(place, local, "must not contain '..'")


_SECCOMP = inside(
    "seccompProfile",
    choice("type", ("Localhost", "RuntimeDefault", "Unconfined"), need="type is required when seccompProfile is set"),
    _local_profile,
)


_CANNOT = "cannot set `allowPrivilegeEscalation` to false and"
_NO_ESCALATION = (
    valid(lambda value: not value.get("privileged"), f"{_CANNOT} `privileged` to true"),
    valid(
        lambda value: "SYS_ADMIN" not in ((value.get("capabilities") or {}).get("add") or ()),
        f"{_CANNOT} `capabilities.Add` CAP_SYS_ADMIN",
    ),
)
CONTAINER = (
    number("runAsUser", 0, _HIGHEST),
    number("runAsGroup", 0, _HIGHEST),
    choice("procMount", ("Default", "Unmasked")),
    _SECCOMP,
    only_if(lambda value: value.get("allowPrivilegeEscalation") is False, *_NO_ESCALATION),
)
_IDENTITIES = (
    *(number(name, 0, _HIGHEST) for name in ("fsGroup", "runAsUser", "runAsGroup")),
    each("supplementalGroups", valid(lambda group: 0 <= group <= _HIGHEST, _IN_RANGE)),
)
_POD = (
    each("sysctls", text("name", _sysctl, need="")),
    choice("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    _SECCOMP,
)


def pod(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the security context of a pod spec, `field` being the place of the spec."""
    context, place = value.get("securityContext") or {}, f"{field}.securityContext"
    found = _host_network(value, field) if value.get("hostNetwork") else []
    found += apply(_IDENTITIES, context, place)
    if value.get("shareProcessNamespace") and value.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid(f"{place}.shareProcessNamespace", True, text))
    return found + apply(_POD, context, place)


def _host_network(value: Manifest, field: str) -> list[FieldError]:
    return [
        invalid(
            f"{field}.{containers}[{index}].ports[{number}].containerPort",
            port.get("containerPort", 0),
            "must match `hostPort` when `hostNetwork` is true",
        )
        for containers in ("containers", "initContainers")
        for index, item in enumerate(value.get(containers) or [])
        for number, port in enumerate(item.get("ports") or [])
        if port.get("hostPort") != port.get("containerPort")
    ]

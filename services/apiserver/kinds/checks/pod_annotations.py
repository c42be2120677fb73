"""Checks of the annotations that mean something in a pod: of mirrors, tolerations, deletion costs and profiles."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, forbidden, invalid
from services.apiserver.kinds.checks.mounts import descending

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_OF_NODES = "localhost/"
_DEFAULTS = ("runtime/default", "docker/default")
_MEANINGFUL = (_MIRROR, _TOLERATIONS, _COST, SECCOMP_POD, SECCOMP_CONTAINER, _APP_ARMOR)
_PARTS = ("initContainers", "containers", "ephemeralContainers")


def meaningful(values: dict[str, str], spec: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with the annotations of a pod or template with that spec."""
    found: list[FieldError] = []
    for key, value in values.items():
        if key.startswith(_MEANINGFUL):
            found += _annotation(key, value, spec, field)
    return found


def _annotation(key: str, value: str, spec: Manifest, field: str) -> Errors:
    place = f"{field}[{key}]"
    if key == _MIRROR and not spec.get("nodeName"):
        yield invalid(place, value, "must set spec.nodeName if mirror pod annotation is set")
    elif key == _TOLERATIONS and value and not _is_list(value):
        yield invalid(field, _TOLERATIONS, "is not a list of tolerations")
    elif key == _COST and not _is_cost(value):
        yield invalid(place, value, "must be a 32bit integer")
    elif key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
        yield from _seccomp(value, f"{field}.{key}")
    elif key.startswith(_APP_ARMOR):
        name = key.removeprefix(_APP_ARMOR)
        if all(item.get("name", "") != name for part in _PARTS for item in spec.get(part) or ()):
            yield invalid(place, name, "container not found")
        if value not in ("", "runtime/default", "unconfined") and not value.startswith(_OF_NODES):
            yield invalid(place, value, f'invalid AppArmor profile name: "{value}"')


def _is_list(value: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(value), list)
    except msgspec.DecodeError:
        return False


def _is_cost(value: str) -> bool:
    digits = value.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    return plain and value != "-0" and -(2**31) <= int(value[:12]) < 2**31 and len(value) <= 11


def _seccomp(value: str, field: str) -> list[FieldError]:
    if value in (*_DEFAULTS, "unconfined"):
        return []
    if value.startswith(_OF_NODES):
        return descending(value.removeprefix(_OF_NODES), field)
    return [invalid(field, value, "must be a valid seccomp profile")]


def _profiles(spec: Manifest) -> Iterator[tuple[str, str, Manifest]]:
    """The annotation, the place and the holder of each seccomp profile that a pod may have."""
    yield SECCOMP_POD, "", spec
    for part in _PARTS:
        for index, item in enumerate(spec.get(part) or ()):
            yield SECCOMP_CONTAINER + item.get("name", ""), f".{part}[{index}]", item


def seccomp_fields(values: dict[str, str], spec: Manifest, field: str) -> Errors:
    """Yield an error for each seccomp profile whose annotation says something else."""
    for key, place, holder in _profiles(spec):
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        said = values.get(key)
        if profile is None or said is None:
            continue
        place, wanted = f"{field}{place}.securityContext.seccompProfile", _profile_text(profile)
        local = profile.get("type") == "Localhost"
        if (said in _DEFAULTS and wanted in _DEFAULTS) or said == wanted or profile.get("type") not in _TEXTS:
            continue
        if local and said.startswith(_OF_NODES):
            yield forbidden(f"{place}.localhostProfile", "seccomp profile in annotation and field must match")
        else:
            yield forbidden(f"{place}.type", "seccomp type in annotation and field must match")


_TEXTS = {"Unconfined": "unconfined", "RuntimeDefault": _DEFAULTS[0], "Localhost": _OF_NODES}


def _profile_text(profile: Manifest) -> str:
    """Return what a seccomp profile is called in an annotation; empty for one that has no name there."""
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        return "" if local is None else f"{_OF_NODES}{local}"
    return _TEXTS.get(kind, "")


def changed(new: dict[str, str], old: dict[str, str], field: str) -> Errors:
    """Yield an error for each annotation that may neither come nor change nor go after a pod was made."""
    for key in sorted(new.keys() | old.keys()):
        kind = "mirror pod annotation" if key == _MIRROR else "AppArmor annotations"
        if (key == _MIRROR or key.startswith(_APP_ARMOR)) and new.get(key) != old.get(key):
            verb = "remove or update" if key in old else "add"
            yield forbidden(f"{field}[{key}]", f"may not {verb} {kind}")

"""Checks of environment variables and of references to the pod's own fields and resources."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, not_supported, required
from services._rules.kubernetes.validation.field_rules import Check, Rules, apply, each, inside, text

_ENV_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FILE_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""The fields of a pod that a file of a volume may hold."""
_READABLE = {*_ENV_PATHS, *FILE_PATHS, "spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = ("cpu", "ephemeral-storage", "memory")
_RESOURCE_PATHS = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _RESOURCES)
_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (_UNITS, f"only divisor's values {', '.join(_UNITS)} are supported with the memory resource"),
    "ephemeral-storage": (
        _UNITS,
        f"only divisor's values {', '.join(_UNITS)} are supported with the local ephemeral storage resource",
    ),
}


def field_reference(allowed: tuple[str, ...]) -> Check:
    """Rule of a reference to a field of the pod, one of those allowed."""

    def check(value: Manifest, field: str) -> Errors:
        version, path = value.get("apiVersion", ""), value.get("fieldPath", "")
        if not version or not path:
            yield required(f"{field}.{'fieldPath' if version else 'apiVersion'}")
            return
        whole, bracket, key = path.removesuffix("']").partition("['")
        entry = bool(bracket and whole) and path.endswith("']")
        if problem := _unreadable(version, path, whole if entry else ""):
            yield invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}")
        elif entry:
            shown = key.lower() if whole == "metadata.annotations" else key
            yield from [invalid(field, key, text) for text in names.qualified(shown)]
        elif path not in allowed:
            yield not_supported(f"{field}.fieldPath", "spec.nodeName" if path == "spec.host" else path, allowed)

    return check


def _unreadable(version: str, path: str, entry_of: str) -> str:
    """Why a field of a pod cannot be read by that path; empty when it can."""
    if version != "v1":
        return f"unsupported pod version: {version}"
    if entry_of:
        known = entry_of in ("metadata.annotations", "metadata.labels")
        return "" if known else f"field label does not support subscript: {path}"
    return "" if path in _READABLE else f"field label not supported: {path}"


def resource_reference(value: Manifest, field: str, *, of_file: bool = False, huge: bool = True) -> Errors:
    """Yield what is wrong with a reference to a container's resource; that of a file names its container."""
    path = value.get("resource", "")
    if of_file and not value.get("containerName"):
        yield required(f"{field}.containerName")
    elif not path:
        yield required(f"{field}.resource")
    elif path not in _RESOURCE_PATHS and not (huge and path.startswith(("limits.hugepages-", "requests.hugepages-"))):
        yield not_supported(f"{field}.resource", path, _RESOURCE_PATHS)
    divisor = value.get("divisor", "0")
    units = _DIVISORS.get(path.partition(".")[2])
    if units and divisor != "0" and divisor not in units[0]:
        yield invalid(f"{field}.divisor", path, units[1])


_KEY = (text("name", names.subdomain, blank=True), text("key", names.config_key, need=""))


_SOURCES: Rules = (
    inside("fieldRef", field_reference(_ENV_PATHS)),
    inside("resourceFieldRef", lambda value, field: resource_reference(value, field, huge=True)),
    inside("configMapKeyRef", *_KEY),
    inside("secretKeyRef", *_KEY),
)


def _value_from(item: Manifest, path: str) -> list[FieldError]:
    source, field = item.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return []
    found = apply(_SOURCES, source, field)
    if not source:
        message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        found.append(invalid(field, "", message))
    elif item.get("value"):
        found.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        found.append(invalid(field, "", "may not have more than one field specified at a time"))
    return found


def _prefix_of_names(value: str) -> list[str]:
    return names.subdomain(names.as_prefix(value))


_SOURCE_OF_ALL = text("name", _prefix_of_names, need="")


def _one_reference(item: Manifest, path: str) -> Errors:
    given, field = len(item.keys() & {"configMapRef", "secretRef"}), path.rpartition("[")[0]
    if given == 0:
        yield invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
    elif given > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


VARIABLES: Rules = (
    each("env", text("name", names.env_name, need=""), _value_from),
    each(
        "envFrom",
        text("prefix", names.env_name),
        inside("configMapRef", _SOURCE_OF_ALL),
        inside("secretRef", _SOURCE_OF_ALL),
        _one_reference,
    ),
)
"""The rules of a container's environment."""

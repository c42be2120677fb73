"""Checks of containers: names, images, ports, environment, probes, mounts, resources, security."""

from __future__ import annotations

from functools import lru_cache

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    NOT_NEGATIVE,
    PORT_RANGE,
    Rules,
    apply,
    choice,
    distinct,
    each,
    inside,
    needed,
    not_negative,
    number,
    one_of,
    port_or_name,
    started,
    text,
    unique,
)
from services.apiserver.kinds.checks.security_contexts import CONTAINER as SECURITY

PROTOCOLS = ("SCTP", "TCP", "UDP")
PROTOCOL = choice("protocol", PROTOCOLS, need="")
_HUGE = "hugepages-"
NATIVE = ("cpu", "memory", "storage", "ephemeral-storage")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def _untrimmed(value: str) -> list[str]:
    return ["must not have leading or trailing whitespace"] if value.strip() != value else []


IMAGE = text("image", _untrimmed, need="")


_PORT = inside("port", port_or_name, absent=0)
_HANDLERS: dict[str, Rules] = {
    "exec": (needed("command"),),
    "httpGet": (
        needed("path"),
        _PORT,
        choice("scheme", ("HTTP", "HTTPS"), blank=True),
        each("httpHeaders", needed("name")),
    ),
    "tcpSocket": (_PORT,),
    "grpc": (_PORT,),
}
_HANDLER = one_of(_HANDLERS, "must specify a handler type", "may not specify more than 1 handler type")
_PROBE = (
    _HANDLER,
    not_negative("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)
_ONCE = number("successThreshold", 1, 1, "must be 1", absent=0)


def _lifecycle(value: Manifest, field: str) -> list[FieldError]:
    return [
        error
        for event, handler in value.items()
        if isinstance(handler, dict)
        for error in _HANDLER(handler, f"{field}.{event}")
    ]


def _good_port_name(port: Manifest) -> str | None:
    name = port.get("name")
    return None if not name or names.port_name(name) else name


_CONTAINER_PORT = (
    text("name", names.port_name),
    distinct(_good_port_name, lambda port, field: duplicate(f"{field}.name", port["name"])),
    number("containerPort", 1, 65535, need=""),
    number("hostPort", 0, 65535, PORT_RANGE),
    PROTOCOL,
)


def host_ports(items: list[Manifest], field: str) -> Errors:
    """Return an error for each host port that two containers want."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        for position, port in enumerate(item.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            wanted = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if wanted in seen:
                yield duplicate(f"{field}[{index}].ports[{position}].hostPort", wanted)
            seen.add(wanted)


_ENV_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
)
MAP_ENTRIES = ("metadata.annotations['", "metadata.labels['")
_RESOURCE_PATHS = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def _env_path(path: str, field: str) -> Errors:
    if path in ("metadata.labels", "metadata.annotations"):
        yield not_supported(field, path, _ENV_PATHS)
    elif path and path not in (*_ENV_PATHS, "status.hostIPs") and not path.startswith(MAP_ENTRIES):
        yield invalid(field, path, f"error converting fieldPath: field label not supported: {path}")


def _resource_path(path: str, field: str) -> Errors:
    if path and path not in _RESOURCE_PATHS and not path.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield not_supported(field, path, _RESOURCE_PATHS)


_KEY_REF = (needed("name"), text("key", names.config_key, need=""))
_VALUE_SOURCES = (
    inside("fieldRef", needed("fieldPath"), inside("fieldPath", _env_path)),
    inside("resourceFieldRef", needed("resource"), inside("resource", _resource_path)),
    inside("configMapKeyRef", *_KEY_REF),
    inside("secretKeyRef", *_KEY_REF),
)


def _value_from(item: Manifest, path: str) -> Errors:
    source, field = item.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    yield from apply(_VALUE_SOURCES, source, field)
    if not source:
        message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(field, "", message)
    elif item.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


def _one_reference(item: Manifest, path: str) -> Errors:
    given, field = len(item.keys() & {"configMapRef", "secretRef"}), path.rpartition("[")[0]
    if given == 0:
        yield invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
    elif given > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


_ENV_FROM = (
    text("prefix", names.env_name),
    inside("configMapRef", needed("name")),
    inside("secretRef", needed("name")),
    _one_reference,
)


def no_dots(path: str, field: str) -> list[FieldError]:
    """Return an error when a path has a step upwards."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def _sub_path(path: str, field: str) -> list[FieldError]:
    found = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + no_dots(path, field)


def _one_sub_path(mount: Manifest, field: str) -> Errors:
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield invalid(f"{field}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")


_MOUNT = (
    needed("mountPath"),
    distinct(
        lambda mount: mount.get("mountPath", ""),
        lambda mount, field: invalid(f"{field}.mountPath", mount.get("mountPath", ""), "must be unique"),
    ),
    inside("subPath", _sub_path),
    inside("subPathExpr", _sub_path),
    _one_sub_path,
    choice("mountPropagation", ("Bidirectional", "HostToContainer", "None")),
)


def _never_overcommitted(name: str) -> bool:
    return name.startswith(_HUGE) or ("/" in name and not name.partition("/")[0].endswith("kubernetes.io"))


def resource_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a container's resource."""
    if name in NATIVE:
        return []
    found = [invalid(field, name, text) for text in names.qualified(name)]
    return found or (not_standard(name, field, "containers") if "/" not in name and not name.startswith(_HUGE) else [])


def not_standard(name: str, field: str, users: str) -> list[FieldError]:
    """Return the errors for the name of a resource that is neither known nor qualified."""
    texts = ("must be a standard resource type or fully qualified", f"must be a standard resource for {users}")
    return [invalid(field, name, text) for text in texts]


def amount(value: str, field: str) -> list[FieldError]:
    """Return an error when a quantity is below zero."""
    return [] if quantity.parse(value).nano >= 0 else [invalid(field, str(value), NOT_NEGATIVE)]


def amounts(values: Manifest, field: str) -> Errors:
    """Return what is wrong with a map of resource amounts."""
    for name, value in values.items():
        yield from resource_name(name, f"{field}[{name}]")
        yield from amount(value, f"{field}[{name}]")


def _resource(name: str, value: str, field: str) -> list[FieldError]:
    found = resource_name(name, field) + amount(value, field)
    if "/" in name and quantity.parse(value).nano % quantity.NANO:
        found.append(invalid(field, str(value), "must be an integer"))
    return found


def _resources(value: Manifest, field: str) -> Errors:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name in limits:
        yield from _resource(name, limits[name], f"{field}.limits[{name}]")
    for name in requests:
        yield from _resource(name, requests[name], f"{field}.requests[{name}]")
        fixed = _never_overcommitted(name)
        if name in limits:
            wanted, limit = quantity.parse(requests[name]), quantity.parse(limits[name])
            if wanted != limit and fixed:
                yield invalid(f"{field}.requests", requests[name], f"must be equal to {name} limit")
            elif limit < wanted:
                message = f"must be less than or equal to {name} limit"
                yield invalid(f"{field}.requests", requests[name], message)
        elif fixed:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    named = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        yield forbidden(field, "HugePages require cpu or memory")


privileged_allowed = True
"""Whether containers may be privileged (kube-apiserver's --allow-privileged); set once when the server starts."""


def _privileged(value: Manifest, field: str) -> Errors:
    if value.get("privileged") and not privileged_allowed:
        yield forbidden(f"{field}.privileged", "disallowed by cluster policy")


@lru_cache(maxsize=256)
def _rules_of(volumes: frozenset[str]) -> Rules:
    """The rules of containers in a pod with volumes of these names."""

    def known(value: Manifest, field: str) -> list[FieldError]:
        name = value.get("name", "")
        return [] if name in volumes else [not_found(f"{field}.name", name)]

    def known_or_missing(value: Manifest, field: str) -> list[FieldError]:
        return known(value, field) if value.get("name") else [required(f"{field}.name")]

    return (
        text("name", names.label, need=""),
        unique("name"),
        IMAGE,
        inside("lifecycle", _lifecycle),
        inside("livenessProbe", *_PROBE, _ONCE),
        inside("readinessProbe", *_PROBE),
        inside("startupProbe", *_PROBE, _ONCE),
        choice(
            "terminationMessagePolicy",
            ("File", "FallbackToLogsOnError"),
            need="must be 'File' or 'FallbackToLogsOnError'",
        ),
        each("ports", *_CONTAINER_PORT),
        each("env", text("name", names.env_name, need=""), _value_from),
        each("envFrom", *_ENV_FROM),
        each("volumeMounts", needed("name"), known, *_MOUNT),
        each("volumeDevices", known_or_missing, needed("devicePath", detail="must not be empty")),
        choice("imagePullPolicy", ("Always", "IfNotPresent", "Never"), need=""),
        inside("resources", _resources),
        inside("securityContext", _privileged, *SECURITY),
    )


def containers(items: list[Manifest], volumes: frozenset[str], field: str) -> list[FieldError]:
    """Return what is wrong with the containers of a pod with volumes of these names."""
    if not items:
        return [required(field)]
    found: list[FieldError] = []
    checks = started(_rules_of(volumes))
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        for check in checks:
            found += check(item, place)
    return [*found, *host_ports(items, field)]


def init_containers(items: list[Manifest], others: list[Manifest], volumes: frozenset[str], field: str) -> Errors:
    """Return what is wrong with the init containers of a pod; their names must differ from the containers'."""
    taken = {item.get("name", "") for item in others}
    for index, item in enumerate(items):
        place, name = f"{field}[{index}]", item.get("name", "")
        for check in started(_rules_of(volumes)):
            yield from check(item, place)
        if name in taken:
            yield duplicate(f"{place}.name", name)
        taken.add(name)
        if item.get("restartPolicy") != "Always":
            unwanted = [part for part in ("lifecycle", *_PROBES) if part in item]
            yield from [
                invalid(f"{place}.{part}", item[part], "must not be set for init containers") for part in unwanted
            ]
    yield from host_ports(items, field)

"""Checks of containers: names, images, ports, environment, probes, mounts, resources, security."""

from __future__ import annotations

from decimal import Decimal

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from services.apiserver.kinds.checks import quantities as quantity
from services.apiserver.kinds.checks import security_contexts as security_checks

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
PORT_RANGE = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HUGE = "hugepages-"
NATIVE = ("cpu", "memory", "storage", "ephemeral-storage")
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def containers(items: list[Manifest], volumes: dict[str, str], field: str) -> list[FieldError]:
    """Return what is wrong with the containers of a pod; `volumes` maps known volume names to their source."""
    if not items:
        return [required(field)]
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        found += _container(item, volumes, f"{field}[{index}]", seen)
    return found + host_ports(items, field)


def init_containers(
    items: list[Manifest], others: list[Manifest], volumes: dict[str, str], field: str
) -> list[FieldError]:
    """Return what is wrong with the init containers of a pod; their names must differ from the containers'."""
    found: list[FieldError] = []
    taken = {item.get("name", "") for item in others}
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        found += _container(item, volumes, place, set())
        if item.get("name", "") in taken:
            found.append(duplicate(f"{place}.name", item.get("name", "")))
        taken.add(item.get("name", ""))
        if item.get("restartPolicy") != "Always":
            for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if name in item:
                    found.append(invalid(f"{place}.{name}", item[name], "must not be set for init containers"))
    return found + host_ports(items, field)


def _container(item: Manifest, volumes: dict[str, str], field: str, seen: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    name = item.get("name", "")
    if not name:
        found.append(required(f"{field}.name"))
    else:
        found += [invalid(f"{field}.name", name, text) for text in names.label(name)]
        if name in seen:
            found.append(duplicate(f"{field}.name", name))
        seen.add(name)
    image = item.get("image", "")
    if not image:
        found.append(required(f"{field}.image"))
    elif image.strip() != image:
        found.append(invalid(f"{field}.image", image, "must not have leading or trailing whitespace"))
    for event, handler in (item.get("lifecycle") or {}).items():
        if isinstance(handler, dict):
            found += _handler(handler, f"{field}.lifecycle.{event}")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in item:
            found += _probe(item[probe], f"{field}.{probe}", once=probe != "readinessProbe")
    policy = item.get("terminationMessagePolicy", "")
    if policy not in MESSAGE_POLICIES:
        place = f"{field}.terminationMessagePolicy"
        found.append(
            not_supported(place, policy, MESSAGE_POLICIES)
            if policy
            else required(place, "must be 'File' or 'FallbackToLogsOnError'")
        )
    found += _ports(item.get("ports") or [], f"{field}.ports")
    found += _env(item.get("env") or [], f"{field}.env")
    found += _env_from(item.get("envFrom") or [], f"{field}.envFrom")
    found += _mounts(item, volumes, field)
    pull = item.get("imagePullPolicy", "")
    if pull not in PULL_POLICIES:
        place = f"{field}.imagePullPolicy"
        found.append(not_supported(place, pull, PULL_POLICIES) if pull else required(place))
    found += resources(item.get("resources") or {}, f"{field}.resources")
    context = item.get("securityContext") or {}
    return found + security_checks.container(context, f"{field}.securityContext", privileged_allowed=privileged_allowed)


def _handler(value: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    chosen = [name for name in HANDLERS if name in value]
    if not chosen:
        return [required(field, "must specify a handler type")]
    for number, name in enumerate(chosen):
        if number:
            found.append(forbidden(f"{field}.{name}", "may not specify more than 1 handler type"))
            continue
        body = value[name]
        if name == "exec" and not body.get("command"):
            found.append(required(f"{field}.exec.command"))
        if name == "httpGet":
            if not body.get("path"):
                found.append(required(f"{field}.httpGet.path"))
            found += port_or_name(body.get("port", 0), f"{field}.httpGet.port")
            if body.get("scheme") not in ("HTTP", "HTTPS"):
                found.append(not_supported(f"{field}.httpGet.scheme", body.get("scheme", ""), ("HTTP", "HTTPS")))
            for index, header in enumerate(body.get("httpHeaders") or []):
                if not header.get("name"):
                    found.append(required(f"{field}.httpGet.httpHeaders[{index}].name"))
        if name == "tcpSocket":
            found += port_or_name(body.get("port", 0), f"{field}.tcpSocket.port")
        if name == "grpc":
            found += port_or_name(body.get("port", 0), f"{field}.grpc.port")
    return found


def _probe(value: Manifest, field: str, *, once: bool) -> list[FieldError]:
    found = _handler(value, field)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if value.get(name, 0) < 0:
            found.append(invalid(f"{field}.{name}", value[name], NOT_NEGATIVE))
    if once and value.get("successThreshold") != 1:
        found.append(invalid(f"{field}.successThreshold", value.get("successThreshold", 0), "must be 1"))
    return found


def port_or_name(value: int | str, field: str) -> list[FieldError]:
    """Return what is wrong with a port given by number or name."""
    if isinstance(value, str):
        return [invalid(field, value, text) for text in names.port_name(value)]
    return [] if 1 <= value <= 65535 else [invalid(field, value, PORT_RANGE)]


def _ports(items: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        if name := item.get("name"):
            texts = names.port_name(name)
            found += [invalid(f"{place}.name", name, text) for text in texts]
            if not texts and name in seen:
                found.append(duplicate(f"{place}.name", name))
            seen.add(name)
        number = item.get("containerPort", 0)
        if number == 0:
            found.append(required(f"{place}.containerPort"))
        elif not 1 <= number <= 65535:
            found.append(invalid(f"{place}.containerPort", number, PORT_RANGE))
        host = item.get("hostPort", 0)
        if host and not 1 <= host <= 65535:
            found.append(invalid(f"{place}.hostPort", host, PORT_RANGE))
        protocol = item.get("protocol", "")
        if protocol not in PROTOCOLS:
            found.append(
                not_supported(f"{place}.protocol", protocol, PROTOCOLS) if protocol else required(f"{place}.protocol")
            )
    return found


def host_ports(items: list[Manifest], field: str) -> list[FieldError]:
    """Return an error for each host port that two containers want."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        for number, port in enumerate(item.get("ports") or []):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if text in seen:
                found.append(duplicate(f"{field}[{index}].ports[{number}].hostPort", text))
            seen.add(text)
    return found


def _env(items: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(items):
        place, name = f"{field}[{index}]", item.get("name", "")
        if not name:
            found.append(required(f"{place}.name"))
        else:
            found += [invalid(f"{place}.name", name, text) for text in names.env_name(name)]
        found += _value_from(item, f"{place}.valueFrom")
    return found


def _value_from(item: Manifest, field: str) -> list[FieldError]:
    source = item.get("valueFrom")
    if source is None:
        return []
    found: list[FieldError] = []
    if ref := source.get("fieldRef"):
        if not ref.get("fieldPath"):
            found.append(required(f"{field}.fieldRef.fieldPath"))
        elif not _env_path(ref["fieldPath"]):
            found.append(_unknown_path(ref["fieldPath"], f"{field}.fieldRef.fieldPath"))
    if (ref := source.get("resourceFieldRef")) is not None:
        name = ref.get("resource", "")
        if not name:
            found.append(required(f"{field}.resourceFieldRef.resource"))
        elif name not in RESOURCE_PATHS and not name.startswith(("limits.hugepages-", "requests.hugepages-")):
            found.append(not_supported(f"{field}.resourceFieldRef.resource", name, RESOURCE_PATHS))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (ref := source.get(name)) is not None:
            if not ref.get("name"):
                found.append(required(f"{field}.{name}.name"))
            if not ref.get("key"):
                found.append(required(f"{field}.{name}.key"))
            else:
                found += [invalid(f"{field}.{name}.key", ref["key"], text) for text in names.config_key(ref["key"])]
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        found.append(invalid(field, "", text))
    elif item.get("value"):
        found.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        found.append(invalid(field, "", "may not have more than one field specified at a time"))
    return found


ENV_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
)


RESOURCE_PATHS = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def _env_path(path: str) -> bool:
    return (
        path in ENV_PATHS
        or path == "status.hostIPs"
        or path.startswith(("metadata.annotations['", "metadata.labels['"))
    )


def _unknown_path(path: str, field: str) -> FieldError:
    known = (
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
        "metadata.uid",
        *ENV_PATHS[3:],
    )
    if path in known:
        return not_supported(field, path, sorted(ENV_PATHS))
    return invalid(field, path, f"error converting fieldPath: field label not supported: {path}")


def _env_from(items: list[Manifest], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        if prefix := item.get("prefix"):
            found += [invalid(f"{place}.prefix", prefix, text) for text in names.env_name(prefix)]
        sources = [name for name in ("configMapRef", "secretRef") if name in item]
        found += [required(f"{place}.{name}.name") for name in sources if not item[name].get("name")]
        if not sources:
            found.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(sources) > 1:
            found.append(invalid(field, "", "may not have more than one field specified at a time"))
    return found


def _mounts(item: Manifest, volumes: dict[str, str], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    points: set[str] = set()
    for index, mount in enumerate(item.get("volumeMounts") or []):
        place, name, path = f"{field}.volumeMounts[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{place}.name"))
        if name not in volumes:
            found.append(not_found(f"{place}.name", name))
        if not path:
            found.append(required(f"{place}.mountPath"))
        if path in points:
            found.append(invalid(f"{place}.mountPath", path, "must be unique"))
        points.add(path)
        for sub in ("subPath", "subPathExpr"):
            text = mount.get(sub, "")
            if text.startswith("/"):
                found.append(invalid(f"{place}.{sub}", text, "must be a relative path"))
            if ".." in text.split("/"):
                found.append(invalid(f"{place}.{sub}", text, "must not contain '..'"))
        if mount.get("subPath") and mount.get("subPathExpr"):
            found.append(
                invalid(f"{place}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")
            )
        mode = mount.get("mountPropagation")
        if mode is not None and mode not in PROPAGATIONS:
            found.append(not_supported(f"{place}.mountPropagation", mode, PROPAGATIONS))
    for index, device in enumerate(item.get("volumeDevices") or []):
        place, name = f"{field}.volumeDevices[{index}]", device.get("name", "")
        if not name:
            found.append(required(f"{place}.name"))
        elif name not in volumes:
            found.append(not_found(f"{place}.name", name))
        if not device.get("devicePath"):
            found.append(required(f"{place}.devicePath", "must not be empty"))
    return found


def resources(value: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with requests and limits."""
    found: list[FieldError] = []
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name in limits:
        found += resource_name(name, f"{field}.limits[{name}]")
        found += amount(limits[name], f"{field}.limits[{name}]")
        found += _whole(name, limits[name], f"{field}.limits[{name}]")
    for name in requests:
        place = f"{field}.requests[{name}]"
        found += resource_name(name, place)
        found += amount(requests[name], place)
        found += _whole(name, requests[name], place)
        if name in limits:
            wanted, limit = quantity.value_of(requests[name]), quantity.value_of(limits[name])
            if wanted != limit and _never_overcommitted(name):
                found.append(invalid(f"{field}.requests", requests[name], f"must be equal to {name} limit"))
            elif wanted > limit:
                text = f"must be less than or equal to {name} limit"
                found.append(invalid(f"{field}.requests", requests[name], text))
        elif _never_overcommitted(name):
            found.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
    named = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        found.append(forbidden(field, "HugePages require cpu or memory"))
    return found


def _never_overcommitted(name: str) -> bool:
    return name.startswith(_HUGE) or ("/" in name and not name.partition("/")[0].endswith("kubernetes.io"))


def resource_name(name: str, field: str) -> list[FieldError]:
    """Return what is wrong with the name of a container's resource."""
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if not found and "/" not in name and name not in NATIVE and not name.startswith(_HUGE):
        return [
            invalid(field, name, "must be a standard resource type or fully qualified"),
            invalid(field, name, "must be a standard resource for containers"),
        ]
    return found


def amount(value: str, field: str) -> list[FieldError]:
    """Return an error when a quantity is below zero."""
    return [] if quantity.value_of(value) >= 0 else [invalid(field, str(value), NOT_NEGATIVE)]


def _whole(name: str, value: str, field: str) -> list[FieldError]:
    if "/" in name and quantity.value_of(value) % Decimal(1):
        return [invalid(field, str(value), "must be an integer")]
    return []


def amounts(values: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a map of resource amounts."""
    found: list[FieldError] = []
    for name, value in values.items():
        found += resource_name(name, f"{field}[{name}]")
        found += amount(value, f"{field}[{name}]")
    return found


privileged_allowed = True
"""Whether containers may be privileged (kube-apiserver's --allow-privileged); set once when the server starts."""

"""Rules of MultiClusterIngress: those of a Kubernetes Ingress (reference 01 §4.3)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.admission.later.multi_cluster_service import load_balancer
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, each, invalid, not_supported, required

Part = Mapping[str, Any]

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_AT_ENDS: Final = ("/..", "/.")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with an ingress for several clusters."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    found: list[FieldError] = []
    if old is not None:
        found += metadata.check_change(meta, old.get("metadata") or {})
        found += load_balancer((obj.get("status") or {}).get("loadBalancer"))
    found += metadata.check_create(meta, names.subdomain, namespaced=True)
    class_name = spec.get("ingressClassName")
    annotation = (meta.get("annotations") or {}).get(_CLASS_ANNOTATION)
    if old is None and annotation is not None and class_name is not None:
        found.append(invalid(f"metadata.annotations[{_CLASS_ANNOTATION}]", annotation, "ingressClassName is set too"))
    if class_name is not None:
        found += each("spec.ingressClassName", class_name, names.subdomain(class_name))
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or []
    if backend is not None:
        found += _backend(backend, "spec.defaultBackend")
    elif not rules:
        found.append(invalid("spec", None, "either defaultBackend or rules must be set"))
    for position, rule in enumerate(rules):
        found += _rule(rule, f"spec.rules[{position}]")
    for position, item in enumerate(spec.get("tls") or ()):
        found += _tls(item, f"spec.tls[{position}]")
    return found


def _rule(rule: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    host = rule.get("host") or ""
    if host:
        if not formats.ip_address(host):
            found.append(invalid(f"{field}.host", host, "must be a DNS name, not an IP address"))
        found += each(f"{field}.host", host, _host(host))
    http = rule.get("http")
    if http is None:
        return found
    if not http.get("paths"):
        found.append(required(f"{field}.http.paths"))
    for position, path in enumerate(http.get("paths") or ()):
        found += _path(path, f"{field}.http.paths[{position}]")
    return found


def _path(item: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    kind, path = item.get("pathType"), item.get("path") or ""
    if kind is None:
        found.append(required(f"{field}.pathType", "must be specified"))
    elif kind not in _PATH_TYPES:
        found.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    elif (path or kind != "ImplementationSpecific") and not path.startswith("/"):
        found.append(invalid(f"{field}.path", path, "must be an absolute path"))
    elif kind != "ImplementationSpecific":
        found += [
            invalid(f"{field}.path", path, f"must not contain {part!r}") for part in _FORBIDDEN_IN_PATHS if part in path
        ]
        found += [
            invalid(f"{field}.path", path, f"must not end with {part!r}")
            for part in _FORBIDDEN_AT_ENDS
            if path.endswith(part)
        ]
    return found + _backend(item.get("backend") or {}, f"{field}.backend")


def _backend(backend: Part, field: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        return [required(field, "needs a service or a resource")]
    if service is not None and resource is not None:
        return [invalid(field, "", "cannot have both a service and a resource")]
    return _service(service, f"{field}.service") if service is not None else _resource(resource, f"{field}.resource")


def _service(service: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    name, port = service.get("name") or "", service.get("port") or {}
    if name:
        found += each(f"{field}.name", name, names.dns1035(name))
    else:
        found.append(required(f"{field}.name"))
    port_name, number = port.get("name") or "", port.get("number") or 0
    if port_name and number:
        found.append(invalid(f"{field}.port", port, "cannot have both a name and a number"))
    elif port_name:
        found += each(f"{field}.port.name", port_name, names.port_name(port_name))
    elif not number:
        found.append(required(f"{field}.port", "needs a name or a number"))
    elif not 1 <= number <= 65535:
        found.append(invalid(f"{field}.port.number", number, "must be between 1 and 65535"))
    return found


def _resource(resource: Any, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    group = resource.get("apiGroup")
    if group:
        found += each(f"{field}.apiGroup", group, names.subdomain(group))
    for name in ("kind", "name"):
        value = resource.get(name) or ""
        if value:
            found += each(f"{field}.{name}", value, names.path_segment(value))
        else:
            found.append(required(f"{field}.{name}"))
    return found


def _tls(item: Part, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, host in enumerate(item.get("hosts") or ()):
        found += each(f"{field}.hosts[{position}]", host or "", _host(host or ""))
    secret = item.get("secretName") or ""
    return found + (each(f"{field}.secretName", secret, names.subdomain(secret)) if secret else [])


def _host(host: str) -> list[str]:
    return names.wildcard(host) if "*" in host else names.subdomain(host)

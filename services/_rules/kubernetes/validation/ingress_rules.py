"""Rules of an Ingress."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    choice,
    each,
    formed,
    inside,
    needed,
    only_if,
    port_or_name,
    text,
)
from services._rules.kubernetes.validation.status_fields import parsed

CLASS_ANNOTATION = "kubernetes.io/ingress.class"


def _dns_name(host: str, field: str) -> list[FieldError]:
    check = names.wildcard if "*" in host else names.subdomain
    return [invalid(field, host, problem) for problem in check(host)]


def _host(host: str, field: str) -> list[FieldError]:
    if not host:
        return []
    found = [invalid(field, host, "must be a DNS name, not an IP address")] if parsed(host) else []
    return found + _dns_name(host, field)


def _path(path: Manifest, field: str) -> list[FieldError]:
    kind, place, value = path.get("pathType"), f"{field}.path", path.get("path", "")
    if kind not in _PATH_TYPES or (kind == "ImplementationSpecific" and not value):
        return []
    found = [] if value.startswith("/") else [invalid(place, value, "must be an absolute path")]
    if kind == "ImplementationSpecific":
        return found
    inside_it = [part for part in ("//", "/./", "/../", "%2f", "%2F") if part in value]
    found += [invalid(place, value, f"must not contain '{part}'") for part in inside_it]
    return found + [invalid(place, value, f"cannot end with '{end}'") for end in ("/..", "/.") if value.endswith(end)]


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_TYPE = choice("pathType", _PATH_TYPES, need="pathType must be specified", blank=True)


def object_reference(reference: Manifest, field: str) -> list[FieldError]:
    """Return what is wrong with a reference to an object by group, kind and name."""
    found = list(inside("apiGroup", formed(names.subdomain))(reference, field))
    for name in ("kind", "name"):
        found += text(name, names.path_segment, need=f"{name} is required")(reference, field)
    return found


def _backend(backend: Manifest, field: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return object_reference(resource, f"{field}.resource")
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    name, port, place = service.get("name", ""), service.get("port") or {}, f"{field}.service.name"
    found = [invalid(place, name, problem) for problem in names.dns1035(name)] if name else [required(place)]
    if port.get("name") and port.get("number"):
        found.append(invalid(field, "", "cannot set both port name & port number"))
    elif given := port.get("name") or port.get("number"):
        found += port_or_name(given, f"{field}.service.port.{'name' if port.get('name') else 'number'}")
    else:
        found.append(required(field, "port name or number is required"))
    return found


def _some_rule(spec: Manifest, path: str) -> list[FieldError]:
    if spec.get("defaultBackend") is not None or spec.get("rules"):
        return []
    problem = "either `defaultBackend` or `rules` must be specified"
    return [invalid(path, Raw("[]networking.IngressRule(nil)"), problem)]


def one_class(obj: Manifest, _: str) -> list[FieldError]:
    """The class of a new Ingress stands in its field or in an annotation."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    annotations = meta.get("annotations") or {}
    if spec.get("ingressClassName") is None or CLASS_ANNOTATION not in annotations or meta.get("resourceVersion"):
        return []
    problem = "can not be set when the class field is also set"
    return [invalid(f"annotations.{CLASS_ANNOTATION}", annotations[CLASS_ANNOTATION], problem)]


_HTTP_PATH: Rules = (
    _PATH_TYPE,
    _path,
    only_if(lambda path: path.get("pathType") is not None, inside("backend", _backend, absent={})),
)
INGRESS_RULES: Rules = (
    inside(
        "spec",
        each("tls", each("hosts", _dns_name), text("secretName", names.subdomain)),
        _some_rule,
        inside("defaultBackend", _backend),
        each("rules", inside("host", _host), inside("http", needed("paths"), each("paths", *_HTTP_PATH))),
        inside("ingressClassName", formed(names.subdomain)),
        absent={},
    ),
)

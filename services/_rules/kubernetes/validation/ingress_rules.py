"""Rules of an Ingress; the betas name their backends by serviceName and servicePort."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    choice,
    each,
    formed,
    inside,
    needed,
    port_or_name,
)
from services._rules.kubernetes.validation.status_fields import parsed

CLASS_ANNOTATION = "kubernetes.io/ingress.class"


def _host(host: str, field: str) -> list[FieldError]:
    if parsed(host):
        return [invalid(field, host, "must be a DNS name, not an IP address")]
    check = names.wildcard if "*" in host else names.subdomain
    return [invalid(field, host, text) for text in check(host)]


def _path(path: Manifest, field: str) -> list[FieldError]:
    kind, place, text = path.get("pathType"), f"{field}.path", path.get("path", "")
    if kind not in _PATH_TYPES or (kind == "ImplementationSpecific" and not text):
        return []
    if not text.startswith("/"):
        return [invalid(place, text, "must be an absolute path")]
    if kind == "ImplementationSpecific":
        return []
    inside_it = [part for part in ("//", "/./", "/../", "%2f", "%2F") if part in text]
    found = [invalid(place, text, f"must not contain '{part}'") for part in inside_it]
    return found + [invalid(place, text, f"cannot end with '{end}'") for end in ("/..", "/.") if text.endswith(end)]


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_TYPE = choice("pathType", _PATH_TYPES, need="pathType must be specified", blank=True)


def _backend(version: str) -> Check:
    stable = version == "v1"
    name_field = "service.name" if stable else "serviceName"

    def check(backend: Manifest, field: str) -> list[FieldError]:
        service, resource = backend.get("service"), backend.get("resource")
        if service is not None and resource is not None:
            return [invalid(field, "", "cannot set both resource and service backends")]
        if resource is not None:
            return needed("kind", "name")(resource, f"{field}.resource")
        if service is None:
            missing = "either service or resource must be set"
            return [required(field, missing) if stable else required(f"{field}.serviceName")]
        name, port, place = service.get("name", ""), service.get("port") or {}, f"{field}.{name_field}"
        found = [invalid(place, name, text) for text in names.dns1035(name)] if name else [required(place)]
        if port.get("name") and port.get("number"):
            found.append(invalid(field, "", "cannot set both port name & port number"))
        elif given := port.get("name") or port.get("number"):
            found += port_or_name(given, f"{field}.service.port.{'name' if port.get('name') else 'number'}")
        else:
            found.append(required(field, "port name or number is required"))
        return found

    return check


def _some_rule(version: str) -> Check:
    def check(spec: Manifest, path: str) -> list[FieldError]:
        if spec.get("defaultBackend") is not None or spec.get("rules"):
            return []
        text = f"either {'`defaultBackend`' if version == 'v1' else '`backend`'} or `rules` must be specified"
        return [invalid(path, Raw("[]networking.IngressRule(nil)"), text)]

    return check


def _default_backend(version: str) -> Check:
    check = _backend(version)
    field = "defaultBackend" if version == "v1" else "backend"
    return lambda spec, path: check(spec["defaultBackend"], f"{path}.{field}") if "defaultBackend" in spec else []


def one_class(obj: Manifest, _: str) -> list[FieldError]:
    """The class of a new Ingress stands in its field or in an annotation."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    annotations = meta.get("annotations") or {}
    if spec.get("ingressClassName") is None or CLASS_ANNOTATION not in annotations or meta.get("resourceVersion"):
        return []
    text = "can not be set when the class field is also set"
    return [invalid(f"annotations.{CLASS_ANNOTATION}", annotations[CLASS_ANNOTATION], text)]


def ingress_rules(version: str) -> Rules:
    """The rules of a version, which names backends in its own terms."""
    path = (_PATH_TYPE, _path, inside("backend", _backend(version), absent={}))
    http = inside("http", needed("paths"), each("paths", *path))
    spec = inside(
        "spec",
        each("tls", each("hosts", _host)),
        _some_rule(version),
        _default_backend(version),
        each("rules", inside("host", _host), http),
        inside("ingressClassName", formed(names.subdomain)),
        absent={},
    )
    return (spec,)

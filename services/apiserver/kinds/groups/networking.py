"""Ingresses (all versions), IngressClasses and NetworkPolicies."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import status_fields as status_checks
from services.apiserver.kinds.checks import volumes as volume_checks
from services.apiserver.kinds.kind_model import Resource

PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class Ingress(BuiltinKind):
    """Ingress; stored as networking.k8s.io/v1, the betas name their backends by serviceName and servicePort."""

    generation = True
    has_status = True

    def __init__(self, resource: Resource, schema_name: str) -> None:
        super().__init__(resource, schema_name)
        self.status_group = "extensions"

    def default(self, obj: Manifest) -> None:
        """Fill in path types, which the betas do not ask for."""
        if self.resource.version == "v1":
            return
        for rule in obj.get("spec", {}).get("rules") or ():
            for path in (rule.get("http") or {}).get("paths") or ():
                path.setdefault("pathType", "ImplementationSpecific")

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the v1 form."""
        if self.resource.version == "v1":
            return obj
        spec = dict(obj.get("spec") or {})
        if (backend := spec.pop("backend", None)) is not None:
            spec["defaultBackend"] = _backend_to_v1(backend)
        return _with_backends(obj, spec, "networking.k8s.io/v1", _backend_to_v1)

    def from_store(self, obj: Manifest) -> Manifest:
        """Return this version's form of a stored v1 object."""
        if self.resource.version == "v1":
            return obj
        spec = dict(obj.get("spec") or {})
        if (backend := spec.pop("defaultBackend", None)) is not None:
            spec["backend"] = _backend_to_beta(backend)
        return _with_backends(obj, spec, self.resource.api_version, _backend_to_beta)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The load balancer has addresses that are ones."""
        return status_checks.load_balancer(new)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check TLS, rules, backends and the class."""
        spec = self.to_store(obj).get("spec") or {}
        found: list[FieldError] = []
        for index, tls in enumerate(spec.get("tls") or ()):
            for number, host in enumerate(tls.get("hosts") or ()):
                found += _host(host, f"spec.tls[{index}].hosts[{number}]")
        backend, rules = spec.get("defaultBackend"), spec.get("rules") or []
        if backend is None and not rules:
            name = "`defaultBackend`" if self.resource.version == "v1" else "`backend`"
            text = f"either {name} or `rules` must be specified"
            found.append(invalid("spec", Raw("[]networking.IngressRule(nil)"), text))
        if backend is not None:
            name = "defaultBackend" if self.resource.version == "v1" else "backend"
            found += self._backend(backend, f"spec.{name}")
        for index, rule in enumerate(rules):
            found += self._rule(rule, f"spec.rules[{index}]")
        chosen = spec.get("ingressClassName")
        if chosen is not None:
            found += [invalid("spec.ingressClassName", chosen, text) for text in names.subdomain(chosen)]
            annotations = obj["metadata"].get("annotations") or {}
            if CLASS_ANNOTATION in annotations and not obj["metadata"].get("resourceVersion"):
                text = "can not be set when the class field is also set"
                found.append(invalid(f"annotations.{CLASS_ANNOTATION}", annotations[CLASS_ANNOTATION], text))
        return found

    def _rule(self, rule: Manifest, field: str) -> list[FieldError]:
        found = _host(rule["host"], f"{field}.host") if rule.get("host") else []
        http = rule.get("http")
        if http is None:
            return found
        paths = http.get("paths") or []
        if not paths:
            found.append(required(f"{field}.http.paths"))
        for index, path in enumerate(paths):
            found += self._path(path, f"{field}.http.paths[{index}]")
        return found

    def _path(self, path: Manifest, field: str) -> list[FieldError]:
        found: list[FieldError] = []
        kind, text = path.get("pathType"), path.get("path", "")
        if kind is None:
            found.append(required(f"{field}.pathType", "pathType must be specified"))
        elif kind not in PATH_TYPES:
            found.append(not_supported(f"{field}.pathType", kind, PATH_TYPES))
        elif kind != "ImplementationSpecific" or text:
            if not text.startswith("/"):
                found.append(invalid(f"{field}.path", text, "must be an absolute path"))
            elif kind != "ImplementationSpecific":
                found += [
                    invalid(f"{field}.path", text, f"must not contain '{bad}'")
                    for bad in ("//", "/./", "/../", "%2f", "%2F")
                    if bad in text
                ]
                found += [
                    invalid(f"{field}.path", text, f"cannot end with '{bad}'")
                    for bad in ("/..", "/.")
                    if text.endswith(bad)
                ]
        return found + self._backend(path.get("backend") or {}, f"{field}.backend")

    def _backend(self, backend: Manifest, field: str) -> list[FieldError]:
        service, resource = backend.get("service"), backend.get("resource")
        if service is not None and resource is not None:
            return [invalid(field, "", "cannot set both resource and service backends")]
        if resource is not None:
            return [required(f"{field}.resource.{name}") for name in ("kind", "name") if not resource.get(name)]
        if service is None:
            return (
                [required(field, "either service or resource must be set")]
                if self.resource.version == "v1"
                else [
                    required(f"{field}.serviceName"),
                ]
            )
        name_field = f"{field}.service.name" if self.resource.version == "v1" else f"{field}.serviceName"
        found: list[FieldError] = []
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            found.append(required(name_field))
        else:
            found += [invalid(name_field, name, text) for text in names.dns1035(name)]
        if port.get("name") and port.get("number"):
            found.append(invalid(field, "", "cannot set both port name & port number"))
        elif port.get("name"):
            found += [
                invalid(f"{field}.service.port.name", port["name"], text) for text in names.port_name(port["name"])
            ]
        elif port.get("number"):
            found += container_checks.port_or_name(port["number"], f"{field}.service.port.number")
        else:
            found.append(required(field, "port name or number is required"))
        return found


def _host(host: str, field: str) -> list[FieldError]:
    if volume_checks.is_address(host):
        return [invalid(field, host, "must be a DNS name, not an IP address")]
    check = names.wildcard if "*" in host else names.subdomain
    return [invalid(field, host, text) for text in check(host)]


def _backend_to_v1(backend: Manifest) -> Manifest:
    result: Manifest = {}
    if name := backend.get("serviceName"):
        port = backend.get("servicePort", 0)
        result["service"] = {"name": name, "port": {"name": port} if isinstance(port, str) else {"number": port}}
    if "resource" in backend:
        result["resource"] = backend["resource"]
    return result


def _backend_to_beta(backend: Manifest) -> Manifest:
    result: Manifest = {}
    if service := backend.get("service"):
        port = service.get("port") or {}
        result["serviceName"] = service.get("name", "")
        result["servicePort"] = port.get("name") or port.get("number", 0)
    else:
        result["servicePort"] = 0
    if "resource" in backend:
        result["resource"] = backend["resource"]
    return result


def _with_backends(obj: Manifest, spec: Manifest, api_version: str, change: Any) -> Manifest:
    rules = []
    for rule in spec.get("rules") or ():
        http = rule.get("http")
        if http is not None:
            paths = [{**path, "backend": change(path.get("backend") or {})} for path in http.get("paths") or ()]
            rule = {**rule, "http": {**http, "paths": paths or None}}
        rules.append(rule)
    if rules:
        spec["rules"] = rules
    return {**obj, "apiVersion": api_version, "spec": spec}


class IngressClass(BuiltinKind):
    """networking.k8s.io IngressClass."""

    generation = True

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the controller's name and the parameters."""
        spec = obj.get("spec") or {}
        controller = spec.get("controller", "")
        found: list[FieldError] = []
        if len(controller) > 250:
            found.append(invalid("spec.controller", controller, "must be no more than 250 characters"))
        prefix, slash, path = controller.partition("/")
        if not slash or not prefix or not path or names.subdomain(prefix):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            found.append(invalid("spec.controller", controller, text))
        parameters = spec.get("parameters")
        if parameters is not None:
            found += [required(f"spec.parameters.{name}") for name in ("kind", "name") if not parameters.get(name)]
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The controller may not change."""
        before = (old.get("spec") or {}).get("controller")
        return [*immutable("spec.controller", (new.get("spec") or {}).get("controller"), before), *self.check(new)]


class NetworkPolicy(BuiltinKind):
    """networking.k8s.io/v1 NetworkPolicy."""

    generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in policy types and protocols."""
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check selectors, peers, ports and types."""
        spec = obj.get("spec") or {}
        found = affinity_checks.label_selector(spec.get("podSelector"), "spec.podSelector")
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                field = f"spec.{direction}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    found += _policy_port(port, f"{field}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    found += _peer(peer, f"{field}.{peers}[{number}]")
        types = spec.get("policyTypes") or []
        if len(types) > 2:
            text = "may not specify more than two policyTypes"
            return [*found, invalid("spec.policyTypes", Raw(str(types)), text)]
        for index, name in enumerate(types):
            if name not in ("Ingress", "Egress"):
                found.append(not_supported(f"spec.policyTypes[{index}]", name, ("Egress", "Ingress")))
        return found


def _policy_port(port: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    if port.get("protocol", "TCP") not in container_checks.PROTOCOLS:
        found.append(not_supported(f"{field}.protocol", port["protocol"], ("SCTP", "TCP", "UDP")))
    if (number := port.get("port")) is not None:
        found += container_checks.port_or_name(number, f"{field}.port")
    return found


def _peer(peer: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    if "podSelector" in peer:
        found += affinity_checks.label_selector(peer["podSelector"], f"{field}.podSelector")
    if "namespaceSelector" in peer:
        found += affinity_checks.label_selector(peer["namespaceSelector"], f"{field}.namespaceSelector")
    if block := peer.get("ipBlock"):
        found += _block(block, f"{field}.ipBlock")
        if len(peer) > 1:
            found.append(forbidden(field, "may not specify both ipBlock and another peer"))
    if not peer:
        found.append(required(field, "must specify a peer"))
    return found


def _block(block: Manifest, field: str) -> list[FieldError]:
    import ipaddress

    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{field}.cidr")]
    text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    try:
        net: Any = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return [invalid(f"{field}.cidr", cidr, f"not a valid CIDR: {text}")]
    found: list[FieldError] = []
    for index, part in enumerate(block.get("except") or ()):
        try:
            inner: Any = ipaddress.ip_network(part, strict=False)
        except ValueError:
            found.append(invalid(f"{field}.except[{index}]", part, text))
            continue
        if inner.version != net.version or not inner.subnet_of(net) or inner.prefixlen <= net.prefixlen:
            found.append(invalid(f"{field}.except[{index}]", part, "must be a strict subset of `cidr`"))
    return found

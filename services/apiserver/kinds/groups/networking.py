"""Ingresses (all versions), IngressClasses and NetworkPolicies."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    changed,
    choice,
    domain_prefixed,
    each,
    inside,
    listed,
    port_or_name,
)
from services._rules.kubernetes.validation.ingress_rules import ingress_rules, object_reference, one_class
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.checks.containers import PROTOCOLS
from services.apiserver.kinds.kind_model import Resource

_NO_RANGE = "not a valid CIDR"


class Ingress(BuiltinKind):
    """Ingress; stored as networking.k8s.io/v1, the betas name their backends by serviceName and servicePort."""

    generation = True
    status_rules = LOAD_BALANCER

    @classmethod
    def defaults_of(cls, resource: Resource) -> Mapping[str, Any]:
        """Return the defaults of a version; the betas do not ask for path types."""
        path = {"paths[]": {"pathType": "ImplementationSpecific"}}
        return {} if resource.version == "v1" else {"spec?": {"rules[]": {"http?": path}}}

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:
        """Return the rules of a version, which names backends in its own terms."""
        return (*ingress_rules(resource.version), one_class)

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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check TLS, rules, backends and the class, as they are stored."""
        return super().check(self.to_store(obj))


def _backend_to_v1(backend: Manifest) -> Manifest:
    result: Manifest = {}
    name, port = backend.get("serviceName", ""), backend.get("servicePort", 0)
    if name or port:
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


_LONGEST_CONTROLLER = 250


def _controller(controller: str, field: str) -> Errors:
    if not controller:
        yield required(field)
        return
    if len(controller.encode()) > _LONGEST_CONTROLLER:
        yield too_long(field, controller, _LONGEST_CONTROLLER)
    yield from domain_prefixed(controller, field)


_SCOPES = ("Cluster", "Namespace")


def _scope(parameters: Manifest, path: str) -> Errors:
    scope, namespace, field = parameters.get("scope"), parameters.get("namespace"), f"{path}.namespace"
    if scope is None:
        yield required(f"{path}.scope")
    elif scope not in _SCOPES:
        yield not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(field, "`parameters.scope` is set to 'Cluster'")
    elif not namespace:
        yield required(field, "`parameters.scope` is set to 'Namespace'")
    else:
        yield from (invalid(field, namespace, text) for text in names.label(namespace))


class IngressClass(BuiltinKind):
    """networking.k8s.io IngressClass."""

    generation = True
    defaults = {"spec": {"parameters?": {"scope": "Cluster"}}}
    spec_rules = (
        inside("controller", _controller, absent=""),
        inside("parameters", object_reference, _scope),
    )

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The controller may not change."""
        return [*changed(("spec.controller",), new, old), *self.check(new)]


def _policy_types(spec: Manifest) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _two_types(spec: Manifest, path: str) -> list[FieldError]:
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        shown = ", ".join(f'"{one}"' for one in types)
        text = "may not specify more than two policyTypes"
        return [invalid(f"{path}.policyTypes", Raw(f"[]networking.PolicyType{{{shown}}}"), text)]
    return each("policyTypes", listed(("Ingress", "Egress")))(spec, path)


def _block(block: Manifest, field: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{field}.cidr")]
    try:
        net: Any = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return [invalid(f"{field}.cidr", cidr, _NO_RANGE)]
    found: list[FieldError] = []
    for index, part in enumerate(block.get("except") or ()):
        try:
            inner: Any = ipaddress.ip_network(part, strict=False)
        except ValueError:
            return [*found, invalid(f"{field}.except[{index}]", part, _NO_RANGE)]
        if inner.version != net.version or not inner.subnet_of(net) or inner.prefixlen <= net.prefixlen:
            found.append(invalid(f"{field}.except[{index}]", part, "must be a strict subset of `cidr`"))
    return found


def _one_kind_of_peer(peer: Manifest, field: str) -> list[FieldError]:
    if "ipBlock" in peer and len(peer) > 1:
        return [forbidden(field, "may not specify both ipBlock and another peer")]
    return [] if peer else [required(field, "must specify a peer")]


_PORT = {"ports[]": {"protocol": "TCP"}}


def _end_of_range(port: Manifest, path: str) -> Errors:
    first, last, field = port.get("port"), port.get("endPort"), f"{path}.endPort"
    if last is None:
        return
    if first is None:
        yield invalid(field, last, "may not be specified when `port` is not specified")
    elif isinstance(first, str):
        yield invalid(field, last, "may not be specified when `port` is non-numeric")
    else:
        if last < first:
            yield invalid(field, first, "must be greater than or equal to `port`")
        yield from port_or_name(last, field)


_PORTS = each(
    "ports",
    choice("protocol", PROTOCOLS, shown=("TCP", "UDP", "SCTP")),
    inside("port", port_or_name),
    _end_of_range,
)
_PEER = (
    inside("podSelector", label_selector),
    inside("namespaceSelector", label_selector),
    inside("ipBlock", _block),
    _one_kind_of_peer,
)


class NetworkPolicy(BuiltinKind):
    """networking.k8s.io/v1 NetworkPolicy."""

    generation = True
    defaults = {"spec": {"": _policy_types, "ingress[]": _PORT, "egress[]": _PORT}}
    spec_rules = (
        inside("podSelector", label_selector),
        each("ingress", _PORTS, each("from", *_PEER)),
        each("egress", _PORTS, each("to", *_PEER)),
        _two_types,
    )

"""Ingresses, IngressClasses, NetworkPolicies, and the addresses and ranges of Services."""

from __future__ import annotations

import ipaddress
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
    changed,
    choice,
    domain_prefixed,
    each,
    given,
    inside,
    listed,
    port_or_name,
    text,
)
from services._rules.kubernetes.validation.ingress_rules import INGRESS_RULES, object_reference, one_class
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER, is_plain_network
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.checks.containers import PROTOCOLS

_NO_RANGE = "not a valid CIDR"


class Ingress(BuiltinKind):
    """networking.k8s.io/v1 Ingress."""

    generation = True
    status_rules = LOAD_BALANCER
    rules = (*INGRESS_RULES, one_class)


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


def _canonical_address(name: str) -> list[str]:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return ["must be a valid IP address"]
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped is not None):
        return ["must be a valid IP address"]
    return [] if str(address) == name else [f"must be in canonical form ({str(address)!r})"]


class IPAddress(BuiltinKind):
    """networking.k8s.io IPAddress: its name is the address."""

    spec_rules = (
        given("parentRef", ""),
        inside(
            "parentRef",
            text("group", names.subdomain),
            text("resource", names.path_segment, need=""),
            text("name", names.path_segment, need=""),
            text("namespace", names.path_segment),
        ),
    )
    fixed = ("spec.parentRef",)

    def check_name(self, name: str) -> list[str]:
        """An address in its only spelling."""
        return _canonical_address(name)


_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96"


def _ranges(spec: Manifest, path: str) -> Errors:
    ranges = spec.get("cidrs") or []
    if not ranges:
        yield required(f"{path}.cidrs", "at least one CIDR required")
    elif len(ranges) > 2:
        yield invalid(path, spec, "may only hold up to 2 values")
    elif len(ranges) == 2 and len({":" in one for one in ranges}) == 1:
        yield invalid(path, spec, _ONE_OF_EACH)
    for index, one in enumerate(ranges):
        if not is_plain_network(one):
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid(f"{path}.cidrs[{index}]", one, text)


class ServiceCIDR(BuiltinKind):
    """networking.k8s.io ServiceCIDR."""

    spec_rules = (_ranges,)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """A range stays; a first one may be followed by one of the other family."""
        ranges, before = new["spec"].get("cidrs") or [], old["spec"].get("cidrs") or []
        if len(before) == 1 and ranges[:1] == before:
            return self.check(new)
        return [*self.check(new), *changed(("spec.cidrs",), new, old)]

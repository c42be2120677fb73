"""Services, and the addresses and ports behind them: EndpointSlices and Endpoints."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    Raw,
    duplicate,
    forbidden,
    go_strings,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Test,
    choice,
    distinct,
    each,
    immutable,
    inside,
    needed,
    number,
    only_if,
    port_or_name,
    refused,
    text,
    unique,
    unwanted,
)
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER, address, is_network, non_special, parsed
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.containers import PROTOCOL, PROTOCOLS
from services.apiserver.kinds.defaults import Defaults

UNSET = "primary clusterIP can not be unset"
_STICKY = Defaults({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}})
_EXTERNAL = ("NodePort", "LoadBalancer")
_TRAFFIC_POLICIES = (None, "", "Cluster", "Local")
_EXTERNAL_NAME = text("externalName", names.subdomain, need="")


def _external_name(spec: Manifest, path: str) -> list[FieldError]:
    return _EXTERNAL_NAME({"externalName": spec.get("externalName", "").removesuffix(".")}, path)


def _headless(spec: Manifest, path: str) -> Errors:
    kind = spec.get("type")
    if kind in _EXTERNAL and spec.get("clusterIP") == "None":
        yield invalid(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")


def _is(*types: str) -> Test:
    return lambda spec: spec.get("type") in types


def _no_kubelet_port(port: Manifest, field: str) -> Errors:
    if port.get("port") == 10250:
        yield invalid(field, 10250, "may not expose port 10250 externally since it is used by kubelet")


_PORT = (
    unique("name"),
    number("port", 1, 65535, absent=0),
    PROTOCOL,
    inside("targetPort", port_or_name, absent=0),
    text("appProtocol", names.qualified),
)
_ONE_PORT = each("ports", text("name", names.label), *_PORT)
_PORTS = each("ports", text("name", names.label, need=""), *_PORT)


def _ports(spec: Manifest, path: str) -> list[FieldError]:
    return (_PORTS if len(spec.get("ports") or ()) > 1 else _ONE_PORT)(spec, path)


_SECONDS = number("timeoutSeconds", 1, 86400, "must be greater than 0 and less than 86400", absent=0)
_AFFINITY_CONFIG = inside("sessionAffinityConfig", inside("clientIP", _SECONDS, absent={}), absent={})


def _cluster_ips(spec: Manifest, path: str) -> Errors:
    ip, ips, field = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], f"{path}.clusterIPs"
    if spec.get("type") == "ExternalName":
        return
    if ip and not ips:
        yield required(field)
        return
    if ips and ips[0] != ip:
        text = "first value must match `clusterIP`" if ip else "may not be set while clusterIP is not"
        yield invalid(field, go_strings(ips), text)
    if "None" in ips and len(ips) > 1:
        yield invalid(field, go_strings(ips), "'None' must be the first and only value")
    for index, value in enumerate(ips):
        if value != "None" and value:
            yield from address(value, f"{field}[{index}]")
    if len(ips) > 2:
        yield invalid(field, go_strings(ips), "may only hold up to 2 values")


def _node_ports(spec: Manifest, path: str) -> Errors:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        field, key = f"{path}.ports[{index}].nodePort", (port.get("protocol", ""), port.get("nodePort", 0))
        if not key[1]:
            continue
        if spec.get("type") == "ClusterIP":
            yield forbidden(field, "may not be used when `type` is 'ClusterIP'")
        if key in seen:
            yield duplicate(field, key[1])
        seen.add(key)


def _port_key(port: Manifest) -> tuple[str, int]:
    return (port.get("protocol", ""), port.get("port", 0))


def _source_ranges(spec: Manifest, path: str) -> Errors:
    ranges, field = spec.get("loadBalancerSourceRanges"), f"{path}.LoadBalancerSourceRanges"
    if ranges:
        if spec.get("type") != "LoadBalancer":
            yield forbidden(field, "may only be used when `type` is 'LoadBalancer'")
        if not all(is_network(one.strip()) for one in ranges):
            text = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
            yield invalid(field, f"[{' '.join(ranges)}]", text)


def _go_port(protocol: str, port: int) -> Raw:
    return Raw(
        f'core.ServicePort{{Name:"", Protocol:"{protocol}", AppProtocol:(*string)(nil), Port:{port}, '
        'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
    )


_SPEC = (
    needed("ports", when=lambda spec: spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"),
    only_if(_is("LoadBalancer"), each("ports", _no_kubelet_port)),
    _headless,
    unwanted("clusterIPs", "may not be set when `type` is 'ExternalName'", _is("ExternalName")),
    only_if(_is("ExternalName"), _external_name),
    _ports,
    inside("selector", meta.labels),
    choice("sessionAffinity", ("ClientIP", "None"), need=""),
    only_if(lambda spec: spec.get("sessionAffinity") == "ClientIP", _AFFINITY_CONFIG),
    _cluster_ips,
    each("externalIPs", non_special),
    choice("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"), need=""),
    _node_ports,
    each("ports", distinct(_port_key, lambda port, field: duplicate(field, _go_port(*_port_key(port))))),
    _source_ranges,
    refused(
        "externalTrafficPolicy",
        "ExternalTrafficPolicy can only be set on NodePort and LoadBalancer service",
        lambda spec: spec.get("externalTrafficPolicy") and spec.get("type") not in _EXTERNAL,
    ),
    refused(
        "externalTrafficPolicy",
        "ExternalTrafficPolicy must be empty, Cluster or Local",
        lambda spec: spec.get("type") in _EXTERNAL and spec.get("externalTrafficPolicy") not in _TRAFFIC_POLICIES,
    ),
)


class Service(BuiltinKind):
    """core/v1 Service. Cluster IPs and node ports are allocated by the server between defaulting and checking."""

    spec_rules = _SPEC
    status_rules = LOAD_BALANCER

    def default(self, obj: Manifest) -> None:
        """Fill in type, affinity, protocols and target ports."""
        spec = obj["spec"]
        affinity = spec.setdefault("sessionAffinity", "None")
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP":
            _STICKY(spec)
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")

    def prepare_create(self, obj: Manifest) -> None:
        """Pair clusterIP with clusterIPs."""
        super().prepare_create(obj)
        _pair(obj["spec"])

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Follow changes of the cluster IP, and drop what the new type has no use for."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        ip, previous = spec.get("clusterIP", ""), before.get("clusterIP", "")
        if not previous:
            _pair(spec)
        elif ip == previous and not spec.get("clusterIPs"):
            # Clients that know one address only send it alone.
            spec["clusterIPs"] = before.get("clusterIPs") or [ip]
        elif spec.get("clusterIPs") == before.get("clusterIPs"):
            if not ip:
                spec.pop("clusterIPs", None)
            elif ip != previous:
                spec["clusterIPs"] = [ip]
        _drop_unused(spec, before)

    def check_name(self, name: str) -> list[str]:
        """A service is a DNS-1035 label."""
        return names.dns1035(name)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The cluster IP may not change."""
        found: list[FieldError] = []
        spec, before = new["spec"], old["spec"]
        if before.get("clusterIP") and "ExternalName" not in (before.get("type"), spec.get("type")):
            ips: list[str] | None = spec.get("clusterIPs")
            if before["clusterIP"] != spec.get("clusterIP", "") or not ips:
                if not ips:
                    found.append(invalid("spec.clusterIPs[0]", Raw("[]string(nil)"), UNSET))
                else:
                    found += immutable("spec.clusterIPs[0]", ips[0], before["clusterIP"], go_strings(ips))
                    if not found:
                        found += immutable("spec.clusterIP", spec.get("clusterIP", ""), before["clusterIP"])
        return [*found, *self.check(new)]


def _pair(spec: Manifest) -> None:
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _drop_unused(spec: Manifest, before: Manifest) -> None:
    """Remove values that only the old type needed, unless the new object changed them."""
    kind, previous = spec.get("type"), before.get("type")
    if previous != "ExternalName" and kind == "ExternalName" and spec.get("clusterIP") == before.get("clusterIP"):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    if previous not in _EXTERNAL or kind in _EXTERNAL:
        return
    ports = {port.get("nodePort") for port in before.get("ports") or ()}
    if all(not port.get("nodePort") or port["nodePort"] in ports for port in spec.get("ports") or ()):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    for name in ("externalTrafficPolicy", "healthCheckNodePort"):
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _endpoint_addresses(obj: Manifest, path: str) -> list[FieldError]:
    kind = obj.get("addressType", "")

    def check(value: str, field: str) -> list[FieldError]:
        if kind == "FQDN":
            return [invalid(field, value, text) for text in names.subdomain(value)]
        if parsed(value) and (":" in value) == (kind == "IPv6"):
            return []
        return [invalid(field, value, f"must be a valid {kind} address")]

    some = needed("addresses", detail="must contain at least 1 address")
    return each("endpoints", some, each("addresses", check), text("hostname", names.label))(obj, path)


class EndpointSlice(BuiltinKind):
    """discovery.k8s.io EndpointSlice; stored as v1, whose node name and zone are in v1beta1's topology map."""

    generation = True
    defaults = {"ports[]": {"name": "", "protocol": "TCP"}}
    rules = (
        choice("addressType", ("FQDN", "IPv4", "IPv6"), need=""),
        _endpoint_addresses,
        each("ports", text("name", names.label), unique("name", blank=True), choice("protocol", PROTOCOLS, blank=True)),
    )
    fixed = ("addressType",)

    def to_store(self, obj: Manifest) -> Manifest:
        """Move the topology map to v1's fields."""
        if self.resource.version == "v1":
            return obj
        endpoints = [_endpoint_to_v1(item) for item in obj.get("endpoints") or ()]
        return {**obj, "apiVersion": "discovery.k8s.io/v1", "endpoints": endpoints}

    def from_store(self, obj: Manifest) -> Manifest:
        """Give v1's fields as the topology map."""
        if self.resource.version == "v1":
            return obj
        endpoints = [_endpoint_to_beta(item) for item in obj.get("endpoints") or ()]
        return {**obj, "apiVersion": "discovery.k8s.io/v1beta1", "endpoints": endpoints or None}


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _endpoint_to_v1(item: Manifest) -> Manifest:
    result = {key: value for key, value in item.items() if key != "topology"}
    topology: dict[str, Any] = dict(item.get("topology") or {})
    if "nodeName" not in result and HOST in topology:
        result["nodeName"] = topology[HOST]
    topology.pop(HOST, None)
    if zone := topology.pop(ZONE, None):
        result["zone"] = zone
    if topology:
        result["deprecatedTopology"] = topology
    return result


def _endpoint_to_beta(item: Manifest) -> Manifest:
    result = {
        key: value for key, value in item.items() if key not in ("deprecatedTopology", "zone", "nodeName", "hints")
    }
    topology = dict(item.get("deprecatedTopology") or {})
    if item.get("nodeName"):
        topology[HOST] = item["nodeName"]
    if item.get("zone"):
        topology[ZONE] = item["zone"]
    if topology:
        result["topology"] = topology
    return result


def _some_address(subset: Manifest, field: str) -> Errors:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(field, "must specify `addresses` or `notReadyAddresses`")


_ADDRESS = (
    inside("ip", address, absent=""),
    text("hostname", names.label),
    text("nodeName", names.subdomain),
    inside("ip", non_special, absent=""),
)
_ENDPOINT_NUMBER = (number("port", 1, 65535, absent=0), choice("protocol", PROTOCOLS, blank=True))
_ONE_ENDPOINT_PORT = each("ports", text("name", names.label), *_ENDPOINT_NUMBER)
_SUBSET_PORTS = each("ports", text("name", names.label, need=""), *_ENDPOINT_NUMBER)


def _ports_of_endpoints(subset: Manifest, field: str) -> list[FieldError]:
    return (_SUBSET_PORTS if len(subset.get("ports") or ()) > 1 else _ONE_ENDPOINT_PORT)(subset, field)


class Endpoints(BuiltinKind):
    """core/v1 Endpoints."""

    create_on_update = True
    defaults = {"subsets[]": {"ports[]": {"protocol": "TCP"}}}
    rules = (
        each(
            "subsets",
            _some_address,
            each("addresses", *_ADDRESS),
            each("notReadyAddresses", *_ADDRESS),
            _ports_of_endpoints,
        ),
    )

"""Services."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import address_families
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
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Test,
    choice,
    distinct,
    each,
    formed,
    given,
    immutable,
    inside,
    listed,
    needed,
    number,
    only_if,
    port_or_name,
    text,
    unique,
    unwanted,
)
from services._rules.kubernetes.validation.status_fields import LOAD_BALANCER, address, is_network, non_special, parsed
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.containers import PROTOCOL
from services.apiserver.kinds.defaults import Defaults

UNSET = "primary clusterIP can not be unset"
_STICKY = Defaults({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}})
_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"
_EXTERNAL = ("NodePort", "LoadBalancer")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
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


def _is_not_sticky(spec: Manifest) -> bool:
    return spec.get("sessionAffinity") == "None"


_PORT = (
    unique("name"),
    number("port", 1, 65535, absent=0),
    PROTOCOL,
    inside("targetPort", port_or_name, absent=0),
    inside("appProtocol", formed(names.qualified)),
)
_ONE_PORT = each("ports", text("name", names.label), *_PORT)
_PORTS = each("ports", text("name", names.label, need=""), *_PORT)


def _ports(spec: Manifest, path: str) -> list[FieldError]:
    return (_PORTS if len(spec.get("ports") or ()) > 1 else _ONE_PORT)(spec, path)


_SECONDS = number("timeoutSeconds", 1, 86400, "must be greater than 0 and less than 86400", absent=0)
_AFFINITY_CONFIG = inside("sessionAffinityConfig", inside("clientIP", _SECONDS, absent={}), absent={})


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


def _repeated_port(port: Manifest, field: str) -> FieldError:
    protocol, number = _port_key(port)
    shown = (
        f'core.ServicePort{{Name:"", Protocol:"{protocol}", AppProtocol:(*string)(nil), Port:{number}, '
        'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
    )
    return duplicate(field, Raw(shown))


def _source_ranges(obj: Manifest, _: str) -> Errors:
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    if ranges := spec.get("loadBalancerSourceRanges"):
        field = "spec.LoadBalancerSourceRanges"
    elif RANGES_ANNOTATION in annotations:
        field, value = f"metadata.annotations[{RANGES_ANNOTATION}]", annotations[RANGES_ANNOTATION].strip()
        ranges = value.split(",") if value else []
    else:
        return
    if spec.get("type") != "LoadBalancer":
        yield forbidden(field, _BALANCED_ONLY)
    listed = "spec" in field
    for index, one in enumerate(ranges):
        if not is_network(one.strip()):
            yield invalid(f"{field}[{index}]" if listed else field, one.strip(), _RANGE)


def _node_ports_of_balancer(spec: Manifest, path: str) -> Errors:
    field, balanced = f"{path}.allocateLoadBalancerNodePorts", spec.get("type") == "LoadBalancer"
    is_given = spec.get("allocateLoadBalancerNodePorts") is not None
    if is_given and not balanced:
        yield forbidden(field, _BALANCED_ONLY)
    elif balanced and not is_given:
        yield required(field)


def _balancer_class(spec: Manifest, path: str) -> list[FieldError]:
    field, value = f"{path}.loadBalancerClass", spec.get("loadBalancerClass")
    if value is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden(field, _BALANCED_ONLY)]
    return [invalid(field, value, text) for text in names.qualified(value)]


def _external_ip(value: str, field: str) -> list[FieldError]:
    return list(non_special(value, field) if parsed(value) else address(value, field))


def _needs_health_check(spec: Manifest) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _is_reached_from_outside(spec: Manifest) -> bool:
    kind = spec.get("type")
    return kind in _EXTERNAL or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _external_traffic(spec: Manifest, path: str) -> Errors:
    field, policy = f"{path}.externalTrafficPolicy", spec.get("externalTrafficPolicy")
    if not _is_reached_from_outside(spec):
        if policy:
            yield invalid(field, policy, "may only be set for externally-accessible services")
    elif not policy:
        yield required(field)
    elif policy not in _TRAFFIC_POLICIES:
        yield not_supported(field, policy, _TRAFFIC_POLICIES)
    field, port = f"{path}.healthCheckNodePort", spec.get("healthCheckNodePort") or 0
    if not _needs_health_check(spec):
        if port:
            where = "`type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield forbidden(field, f"may only be set when {where}")
    elif not port:
        yield required(field)
    else:
        yield from port_or_name(port, field)


_SPEC = (
    needed("ports", when=lambda spec: spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"),
    only_if(_is("LoadBalancer"), each("ports", _no_kubelet_port)),
    _headless,
    unwanted("clusterIPs", "may not be set when `type` is 'ExternalName'", _is("ExternalName")),
    unwanted("ipFamilies", "may not be set when `type` is 'ExternalName'", _is("ExternalName")),
    unwanted("ipFamilyPolicy", "may not be set when `type` is 'ExternalName'", _is("ExternalName")),
    only_if(_is("ExternalName"), _external_name),
    _ports,
    inside("selector", meta.labels),
    choice("sessionAffinity", ("ClientIP", "None"), need=""),
    only_if(lambda spec: spec.get("sessionAffinity") == "ClientIP", _AFFINITY_CONFIG),
    unwanted("sessionAffinityConfig", "must not be set when session affinity is None", _is_not_sticky),
    address_families.cluster_addresses,
    each("externalIPs", _external_ip),
    choice("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"), need=""),
    _node_ports,
    each("ports", distinct(_port_key, _repeated_port)),
)
_TRAFFIC = (
    _node_ports_of_balancer,
    _balancer_class,
    _external_traffic,
    only_if(_is(*_EXTERNAL, "ClusterIP"), given("internalTrafficPolicy", "")),
    inside("internalTrafficPolicy", listed(_TRAFFIC_POLICIES)),
    inside("trafficDistribution", listed(_DISTRIBUTIONS)),
)


class Service(BuiltinKind):
    """core/v1 Service. Cluster IPs and node ports are allocated by the server between defaulting and checking."""

    rules = (inside("spec", *_SPEC, absent={}), _source_ranges, inside("spec", *_TRAFFIC, absent={}))
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
        if _is_reached_from_outside(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in (*_EXTERNAL, "ClusterIP"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: Manifest) -> None:
        """Pair clusterIP with clusterIPs."""
        super().prepare_create(obj)
        _pair(obj["spec"])

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Follow changes of the cluster IP, and drop what the new type has no use for."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        _keep_allocated(spec, before)
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
        """A Service is a label of the DNS."""
        return names.label(name)

    def warnings(self, obj: Manifest) -> list[str]:
        """Tell of fields without effect, of a use that ends, and of addresses better written otherwise."""
        annotations = obj["metadata"].get("annotations") or {}
        found = []
        if _HINTS_ANNOTATION in annotations:
            found.append(f"annotation {_HINTS_ANNOTATION} is deprecated, please use {_MODE_ANNOTATION} instead")
        found += address_families.warnings(obj["spec"])
        if obj["spec"].get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The cluster IP may not change, nor the class of a load balancer."""
        found: list[FieldError] = []
        spec, before = new["spec"], old["spec"]
        port = "healthCheckNodePort"
        if _needs_health_check(spec) and _needs_health_check(before) and spec.get(port) != before.get(port):
            return [forbidden(f"spec.{port}", "field is immutable")]
        if before.get("clusterIP") and "ExternalName" not in (before.get("type"), spec.get("type")):
            ips: list[str] | None = spec.get("clusterIPs")
            if before["clusterIP"] != spec.get("clusterIP", "") or not ips:
                if not ips:
                    found.append(invalid("spec.clusterIPs[0]", Raw("[]string(nil)"), UNSET))
                else:
                    found += immutable("spec.clusterIPs[0]", ips[0], before["clusterIP"], go_strings(ips))
                    if not found:
                        found += immutable("spec.clusterIP", spec.get("clusterIP", ""), before["clusterIP"])
        if spec.get("type") == before.get("type") == "LoadBalancer":
            name = spec.get("loadBalancerClass")
            if name != before.get("loadBalancerClass"):
                found.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
        return [*found, *_balancer_class(spec, "spec"), *self.check(new)]


def _keep_allocated(spec: Manifest, before: Manifest) -> None:
    """Fill in what the server gave out before and the new object leaves out."""
    kind, previous = spec.get("type"), before.get("type")
    if kind != "ExternalName" and previous != "ExternalName":
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if kind in _EXTERNAL and previous in _EXTERNAL:
        held = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        used = {port.get("nodePort", 0) for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = held.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    name = "healthCheckNodePort"
    if _needs_health_check(spec) and _needs_health_check(before) and before.get(name) and not spec.get(name):
        spec[name] = before[name]


def _pair(spec: Manifest) -> None:
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _drop_unused(spec: Manifest, before: Manifest) -> None:
    """Remove values that only the old type needed, unless the new object changed them."""
    kind, previous = spec.get("type"), before.get("type")
    unused: list[str] = []
    if previous != "ExternalName" and kind == "ExternalName":
        if spec.get("clusterIP") == before.get("clusterIP"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        unused += ["ipFamilies", "ipFamilyPolicy"]
    if previous in _EXTERNAL and kind not in _EXTERNAL:
        ports = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(not port.get("nodePort") or port["nodePort"] in ports for port in spec.get("ports") or ()):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if _needs_health_check(before) and not _needs_health_check(spec):
        unused.append("healthCheckNodePort")
    if previous == "LoadBalancer" and kind != "LoadBalancer":
        unused += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if _is_reached_from_outside(before) and not _is_reached_from_outside(spec):
        unused.append("externalTrafficPolicy")
    for name in unused:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)

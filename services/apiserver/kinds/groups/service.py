"""Services."""

from __future__ import annotations

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
    apply,
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
_LAST_PARTIAL = 20
"""The last release that refuses a PUT which leaves out the cluster IP, or the revision."""
RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"
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


def _source_ranges(obj: Manifest, _: str) -> Errors:
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    if ranges := spec.get("loadBalancerSourceRanges"):
        field, shown = "spec.LoadBalancerSourceRanges", f"[{' '.join(ranges)}]"
    elif RANGES_ANNOTATION in annotations:
        field, shown = f"metadata.annotations[{RANGES_ANNOTATION}]", annotations[RANGES_ANNOTATION]
        ranges = shown.strip().split(",") if shown.strip() else []
    else:
        return
    if spec.get("type") != "LoadBalancer":
        yield forbidden(field, _BALANCED_ONLY)
    if not all(is_network(one.strip()) for one in ranges):
        text = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
        yield invalid(field, shown, text)


def _go_port(protocol: str, port: int) -> Raw:
    return Raw(
        f'core.ServicePort{{Name:"", Protocol:"{protocol}", AppProtocol:(*string)(nil), Port:{port}, '
        'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
    )


_LAST_OF_ONE_PROTOCOL = 23
"""The last release in which a load balancer has one protocol only."""


def _one_protocol(spec: Manifest, path: str) -> Errors:
    """Yield what keeps one load balancer from serving all ports."""
    ports, used = spec.get("ports") or [], set[str]()
    for index, port in enumerate(ports):
        protocol = port.get("protocol", "")
        if protocol in PROTOCOLS:
            used.add(protocol)
        else:
            text = "cannot create an external load balancer with non-TCP/UDP/SCTP ports"
            yield invalid(f"{path}.ports[{index}].protocol", protocol, text)
    if len(used) > 1:
        shown = ", ".join(_go_port(*_port_key(port)).text for port in ports)
        text = "cannot create an external load balancer with mix protocols"
        yield invalid(f"{path}.ports", Raw(f"[]core.ServicePort{{{shown}}}"), text)


def _balanced_only(spec: Manifest, path: str) -> list[FieldError]:
    if "allocateLoadBalancerNodePorts" not in spec or spec.get("type") == "LoadBalancer":
        return []
    return [forbidden(f"{path}.allocateLoadBalancerNodePorts", _BALANCED_ONLY)]


def _external_ip(value: str, field: str) -> list[FieldError]:
    return list(non_special(value, field) if parsed(value) else address(value, field))


def _needs_health_check(spec: Manifest) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


# What is said of a Service with nothing else wrong.
_COMBINED = (
    refused(
        "externalTrafficPolicy",
        "ExternalTrafficPolicy can only be set on NodePort and LoadBalancer service",
        lambda spec: spec.get("externalTrafficPolicy") and spec.get("type") not in _EXTERNAL,
    ),
    refused(
        "healthCheckNodePort",
        "HealthCheckNodePort can only be set on LoadBalancer service with ExternalTrafficPolicy=Local",
        lambda spec: spec.get("healthCheckNodePort") and not _needs_health_check(spec),
    ),
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
    each("externalIPs", _external_ip),
    choice("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"), need=""),
    _node_ports,
    each("ports", distinct(_port_key, lambda port, field: duplicate(field, _go_port(*_port_key(port))))),
    _balanced_only,
    refused(
        "externalTrafficPolicy",
        "ExternalTrafficPolicy must be empty, Cluster or Local",
        lambda spec: spec.get("externalTrafficPolicy") not in _TRAFFIC_POLICIES,
    ),
    number("healthCheckNodePort", 0, detail="HealthCheckNodePort must be not less than 0"),
)


class Service(BuiltinKind):
    """core/v1 Service. Cluster IPs and node ports are allocated by the server between defaulting and checking."""

    rules = (inside("spec", *_SPEC, absent={}), _source_ranges)
    status_rules = LOAD_BALANCER

    @property
    def revision_is_checked(self) -> bool:  # type: ignore[override]
        """Older releases check a Service before they look at the revision that it replaces."""
        return self.release <= _LAST_PARTIAL

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
        if self.release > _LAST_PARTIAL:
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
        """A service is a DNS-1035 label."""
        return names.dns1035(name)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the spec, and how its fields go together when each is good by itself."""
        spec, found = obj["spec"], super().check(obj)
        if spec.get("type") == "LoadBalancer" and self.release <= _LAST_OF_ONE_PROTOCOL:
            found += _one_protocol(spec, "spec")
        return found or apply(_COMBINED, spec, "spec")

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

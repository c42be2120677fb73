"""Services and EndpointSlices."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    Raw,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.object_metadata import immutable
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import status_fields as status_checks
from services.apiserver.kinds.checks import volumes as volume_checks

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS = container_checks.PROTOCOLS
STICKY_SECONDS = 10800
UNSET = "primary clusterIP can not be unset"


class Service(BuiltinKind):
    """core/v1 Service. Cluster IPs and node ports are allocated by the server between defaulting and checking."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """Fill in type, affinity, protocols and target ports."""
        spec = obj["spec"]
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", STICKY_SECONDS)
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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the whole spec."""
        spec = obj["spec"]
        kind, ports = spec.get("type", ""), spec.get("ports") or []
        headless = spec.get("clusterIP") == "None"
        found: list[FieldError] = []
        if not ports and not headless and kind != "ExternalName":
            found.append(required("spec.ports"))
        if kind == "LoadBalancer":
            found += _load_balancer(ports, headless=headless)
        if kind == "NodePort" and headless:
            found.append(invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services"))
        if kind == "ExternalName":
            found += _external_name(spec)
        seen: set[str] = set()
        for index, port in enumerate(ports):
            found += _port(port, f"spec.ports[{index}]", seen, named=len(ports) > 1)
        found += meta.labels(spec.get("selector") or {}, "spec.selector")
        affinity = spec.get("sessionAffinity", "")
        if affinity not in ("ClientIP", "None"):
            found.append(
                not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
                if affinity
                else required("spec.sessionAffinity")
            )
        elif affinity == "ClientIP":
            seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
            if not 0 < seconds <= 86400:
                place = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
                found.append(invalid(place, seconds, "must be greater than 0 and less than 86400"))
        if kind != "ExternalName":
            found += _cluster_ips(spec)
        for index, address in enumerate(spec.get("externalIPs") or []):
            found += status_checks.non_special(address, f"spec.externalIPs[{index}]")
        if kind not in TYPES:
            found.append(not_supported("spec.type", kind, TYPES) if kind else required("spec.type"))
        found += _combinations(spec, ports)
        return found

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
                    found += immutable("spec.clusterIPs[0]", ips[0], before["clusterIP"], Raw(_strings(ips)))
                    if not found:
                        found += immutable("spec.clusterIP", spec.get("clusterIP", ""), before["clusterIP"])
        return [*found, *self.check(new)]

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The load balancer has addresses that are ones."""
        return status_checks.load_balancer(new)


def _pair(spec: Manifest) -> None:
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _drop_unused(spec: Manifest, before: Manifest) -> None:
    """Remove values that only the old type needed, unless the new object changed them."""
    kind, previous = spec.get("type"), before.get("type")
    if previous != "ExternalName" and kind == "ExternalName" and spec.get("clusterIP") == before.get("clusterIP"):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    external = ("NodePort", "LoadBalancer")
    if previous not in external or kind in external:
        return
    ports = {port.get("nodePort") for port in before.get("ports") or ()}
    if all(not port.get("nodePort") or port["nodePort"] in ports for port in spec.get("ports") or ()):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    for name in ("externalTrafficPolicy", "healthCheckNodePort"):
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _strings(values: list[str]) -> str:
    shown = ", ".join(f'"{value}"' for value in values)
    return f"[]string{{{shown}}}"


def _load_balancer(ports: list[Manifest], *, headless: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for index, port in enumerate(ports):
        if port.get("port") == 10250:
            text = "may not expose port 10250 externally since it is used by kubelet"
            found.append(invalid(f"spec.ports[{index}]", 10250, text))
    if headless:
        text = "may not be set to 'None' for LoadBalancer services"
        found.append(invalid("spec.clusterIPs[0]", "None", text))
    return found


def _external_name(spec: Manifest) -> list[FieldError]:
    found: list[FieldError] = []
    if spec.get("clusterIPs"):
        found.append(forbidden("spec.clusterIPs", "may not be set when `type` is 'ExternalName'"))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*found, required("spec.externalName")]
    return found + [invalid("spec.externalName", name, text) for text in names.subdomain(name)]


def _port(port: Manifest, field: str, seen: set[str], *, named: bool) -> list[FieldError]:
    found: list[FieldError] = []
    name = port.get("name", "")
    if not name:
        if named:
            found.append(required(f"{field}.name"))
    else:
        found += [invalid(f"{field}.name", name, text) for text in names.label(name)]
        if name in seen:
            found.append(duplicate(f"{field}.name", name))
        seen.add(name)
    if not 1 <= port.get("port", 0) <= 65535:
        found.append(invalid(f"{field}.port", port.get("port", 0), container_checks.PORT_RANGE))
    protocol = port.get("protocol", "")
    if protocol not in PROTOCOLS:
        found.append(
            not_supported(f"{field}.protocol", protocol, PROTOCOLS) if protocol else required(f"{field}.protocol")
        )
    target = port.get("targetPort", 0)
    found += container_checks.port_or_name(target, f"{field}.targetPort")
    if application := port.get("appProtocol"):
        found += [invalid(f"{field}.appProtocol", application, text) for text in names.qualified(application)]
    return found


def _cluster_ips(spec: Manifest) -> list[FieldError]:
    ip, ips = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    found: list[FieldError] = []
    if ip and not ips:
        return [required("spec.clusterIPs")]
    if ips and ips[0] != ip:
        text = "first value must match `clusterIP`" if ip else "may not be set while clusterIP is not"
        found.append(invalid("spec.clusterIPs", Raw(_strings(ips)), text))
    if "None" in ips and len(ips) > 1:
        found.append(invalid("spec.clusterIPs", Raw(_strings(ips)), "'None' must be the first and only value"))
    for index, value in enumerate(ips):
        if value != "None" and value:
            found += volume_checks.address(value, f"spec.clusterIPs[{index}]")
    if len(ips) > 2:
        found.append(invalid("spec.clusterIPs", Raw(_strings(ips)), "may only hold up to 2 values"))
    return found


def _combinations(spec: Manifest, ports: list[Manifest]) -> list[FieldError]:
    found: list[FieldError] = []
    kind = spec.get("type", "")
    external = kind in ("NodePort", "LoadBalancer")
    by_node: set[tuple[str, int]] = set()
    by_port: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        node, protocol = port.get("nodePort", 0), port.get("protocol", "")
        if node and kind == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            found.append(forbidden(f"spec.ports[{index}].nodePort", text))
        if node:
            if (protocol, node) in by_node:
                found.append(duplicate(f"spec.ports[{index}].nodePort", node))
            by_node.add((protocol, node))
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in by_port:
            found.append(duplicate(f"spec.ports[{index}]", _go_port(*key)))
        by_port.add(key)
    ranges = spec.get("loadBalancerSourceRanges")
    if ranges:
        place = "spec.LoadBalancerSourceRanges"
        if kind != "LoadBalancer":
            found.append(forbidden(place, "may only be used when `type` is 'LoadBalancer'"))
        if not all(status_checks.is_network(one.strip()) for one in ranges):
            text = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
            found.append(invalid(place, f"[{' '.join(ranges)}]", text))
    policy = spec.get("externalTrafficPolicy")
    if policy:
        if not external:
            text = "ExternalTrafficPolicy can only be set on NodePort and LoadBalancer service"
            found.append(invalid("spec.externalTrafficPolicy", policy, text))
        elif policy not in ("Cluster", "Local"):
            text = "ExternalTrafficPolicy must be empty, Cluster or Local"
            found.append(invalid("spec.externalTrafficPolicy", policy, text))
    return found


def _go_port(protocol: str, port: int) -> Raw:
    return Raw(
        f'core.ServicePort{{Name:"", Protocol:"{protocol}", AppProtocol:(*string)(nil), Port:{port}, '
        'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
    )


class EndpointSlice(BuiltinKind):
    """discovery.k8s.io EndpointSlice; stored as v1, whose node name and zone are in v1beta1's topology map."""

    generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in port names and protocols."""
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the address type, the addresses and the ports."""
        found: list[FieldError] = []
        kind = obj.get("addressType", "")
        if kind not in ("IPv4", "IPv6", "FQDN"):
            found.append(
                not_supported("addressType", kind, ("FQDN", "IPv4", "IPv6")) if kind else required("addressType")
            )
        for index, item in enumerate(obj.get("endpoints") or ()):
            field = f"endpoints[{index}]"
            addresses = item.get("addresses") or []
            if not addresses:
                found.append(required(f"{field}.addresses", "must contain at least 1 address"))
            for number, address in enumerate(addresses):
                place = f"{field}.addresses[{number}]"
                if kind == "FQDN":
                    found += [invalid(place, address, text) for text in names.subdomain(address)]
                elif not volume_checks.is_address(address) or (":" in address) != (kind == "IPv6"):
                    found.append(invalid(place, address, f"must be a valid {kind} address"))
            if host := item.get("hostname"):
                found += [invalid(f"{field}.hostname", host, text) for text in names.label(host)]
        seen: set[str] = set()
        for index, port in enumerate(obj.get("ports") or ()):
            field, name = f"ports[{index}]", port.get("name") or ""
            if name:
                found += [invalid(f"{field}.name", name, text) for text in names.label(name)]
            if name in seen:
                found.append(duplicate(f"{field}.name", name or Raw('""')))
            seen.add(name)
            if port.get("protocol") not in PROTOCOLS:
                found.append(not_supported(f"{field}.protocol", port.get("protocol", ""), PROTOCOLS))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The address type may not change."""
        return [*self.check(new), *immutable("addressType", new.get("addressType"), old.get("addressType"))]


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

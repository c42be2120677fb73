"""Table rows of the network's kinds: services, endpoints, ingresses, network policies."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services.apiserver.tables.human import NONE, UNKNOWN, UNSET, created, first_of, labels, selector
from services.apiserver.tables.printer import Cell, Cells, name_of, part

_MOST: Final = 3


def _service(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return [
        name_of(obj),
        spec.get("type", ""),
        addresses[0],
        _external(spec, part(obj, "status")),
        ports,
        created(obj, now),
        labels(spec.get("selector")),
    ]


def _port(port: Manifest) -> str:
    node_port = port.get("nodePort")
    return f"{port.get('port')}{f':{node_port}' if node_port else ''}/{port.get('protocol', 'TCP')}"


def _external(spec: Manifest, status: Manifest) -> str:
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balanced = balancer(status)
            return ",".join([*([balanced] if balanced else []), *given]) or "<pending>"
        case "ExternalName":
            return spec.get("externalName", "")  # type: ignore[no-any-return]
        case _:
            return UNKNOWN


def balancer(status: Manifest) -> str:
    """Return the addresses of a load balancer, sorted."""
    points = part(status, "loadBalancer").get("ingress") or ()
    return ",".join(sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""}))


def _endpoints(obj: Manifest, now: dt.datetime) -> Cells:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [item.get("ip", "") for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [f"{_bracketed(address)}:{port.get('port')}" for address in addresses]
    shown = first_of(found, len(found), _MOST) if obj.get("subsets") else NONE
    return [name_of(obj), shown, created(obj, now)]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _slice(obj: Manifest, now: dt.datetime) -> Cells:
    ports = [str(port.get("port") or port.get("name", "*")) for port in obj.get("ports") or ()]
    addresses = [address for item in obj.get("endpoints") or () for address in item.get("addresses") or ()]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        first_of(ports, len(ports), _MOST) or UNSET,
        first_of(addresses, len(addresses), _MOST) or UNSET,
        created(obj, now),
    ]


def _ingress(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        _hosts(spec.get("rules") or ()),
        balancer(part(obj, "status")),
        "80, 443" if spec.get("tls") else "80",
        created(obj, now),
    ]


def _hosts(rules: Sequence[Manifest]) -> str:
    """Return the first hosts; rules behind them count as more, whether they name a host or not."""
    named = [place for place, rule in enumerate(rules) if rule.get("host")][:_MOST]
    shown = ",".join(rules[place]["host"] for place in named) or "*"
    more = len(named) == _MOST and named[-1] < len(rules) - 1
    return f"{shown} + {len(rules) - _MOST} more..." if more else shown


def _ingress_class(obj: Manifest, now: dt.datetime) -> Cells:
    spec = part(obj, "spec")
    parameters: Any = spec.get("parameters")
    shown = NONE
    if parameters:
        group = parameters.get("apiGroup")
        shown = f"{parameters.get('kind', '')}{f'.{group}' if group else ''}/{parameters.get('name', '')}"
    return [name_of(obj), spec.get("controller", ""), shown, created(obj, now)]


def _policy(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), selector(part(obj, "spec").get("podSelector")), created(obj, now)]


def _address(obj: Manifest, now: dt.datetime) -> Cells:
    parent = part(obj, "spec", "parentRef")
    resource = ".".join(parent[name] for name in ("resource", "group") if parent.get(name))
    owner = "/".join(parent[name] for name in ("namespace", "name") if parent.get(name))
    return [name_of(obj), f"{resource}/{owner}", created(obj, now)]


def _service_range(obj: Manifest, now: dt.datetime) -> Cells:
    return [name_of(obj), ",".join(part(obj, "spec").get("cidrs") or ()), created(obj, now)]


NETWORK: Final[dict[str, Cell]] = {
    "services": _service,
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _slice,
    "ingresses.networking.k8s.io": _ingress,
    "ingresses.extensions": _ingress,
    "ingressclasses.networking.k8s.io": _ingress_class,
    "networkpolicies.networking.k8s.io": _policy,
    "ipaddresses.networking.k8s.io": _address,
    "servicecidrs.networking.k8s.io": _service_range,
}

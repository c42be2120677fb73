"""Rules of MultiClusterService, and of addresses of load balancers (reference 01 §4.3)."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.common import value_formats as formats
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, each, invalid, not_supported

_TYPES: Final = ("CrossCluster", "LoadBalancer")


def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with a service for several clusters."""
    spec = obj.get("spec") or {}
    found: list[FieldError] = []
    types = spec.get("types") or []
    if old is not None:
        found += metadata.check_change(obj.get("metadata") or {}, old.get("metadata") or {})
        if types != ((old.get("spec") or {}).get("types") or []):
            found.append(invalid("spec.types", types, "is immutable"))
        found += load_balancer((obj.get("status") or {}).get("loadBalancer"))
    found += metadata.check_create(obj.get("metadata") or {}, names.dns1035, namespaced=True)
    found += _ports(spec.get("ports") or [])
    for position, name in enumerate(types):
        if name not in _TYPES:
            found.append(not_supported(f"spec.types[{position}]", name, _TYPES))
    if len(set(types)) > 1:
        found.append(invalid("spec.types", types, "must not contain more than one type"))
    for field in ("providerClusters", "consumerClusters"):
        for position, cluster in enumerate(spec.get(field) or ()):
            name = cluster.get("name") or ""
            found += each(f"spec.{field}[{position}].name", name, formats.cluster_name(name))
    return found


def load_balancer(status: Mapping[str, Any] | None) -> list[FieldError]:
    """What is wrong with the addresses in a status."""
    found: list[FieldError] = []
    for position, address in enumerate((status or {}).get("ingress") or ()):
        place = f"status.loadBalancer.ingress[{position}]"
        ip, host = address.get("ip") or "", address.get("hostname") or ""
        if ip:
            found += each(f"{place}.ip", ip, formats.ip_address(ip))
        if host:
            found += each(f"{place}.hostname", host, names.subdomain(host))
            if not formats.ip_address(host):
                found.append(invalid(f"{place}.hostname", host, "must be a name, not an IP address"))
    return found


def _ports(ports: list[Mapping[str, Any]]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, port in enumerate(ports):
        name, number = port.get("name") or "", port.get("port") or 0
        place = f"spec.ports[{position}]"
        if name:
            found += each(f"{place}.name", name, names.label(name))
            if name in seen:
                found.append(duplicate(f"{place}.name", name))
            seen.add(name)
        if not 1 <= number <= 65535:
            found.append(invalid(f"{place}.port", number, "must be between 1 and 65535"))
    return found

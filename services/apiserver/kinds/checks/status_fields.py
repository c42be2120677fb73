"""Checks of writes to status: counts of replicas, addresses of load balancers, addresses that are for no endpoint."""

from __future__ import annotations

import ipaddress
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, invalid

_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_BEYOND: Final = "cannot be greater than status.replicas"
_SPECIAL: Final = (
    ("is_unspecified", "may not be unspecified (0.0.0.0 or ::)"),
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
)
_LINK_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def counts(obj: Manifest, fields: tuple[str, ...], part_of_replicas: tuple[str, ...] = ()) -> list[FieldError]:
    """Return what is wrong with numbers of a status; those of `part_of_replicas` are at most `replicas`."""
    status = obj.get("status") or {}
    numbers = {name: status.get(name) or 0 for name in (*fields, *part_of_replicas, "replicas", "readyReplicas")}
    found = [invalid(f"status.{name}", numbers[name], _NOT_NEGATIVE) for name in fields if numbers[name] < 0]
    beyond = [name for name in part_of_replicas if numbers[name] > numbers["replicas"]]
    found += [invalid(f"status.{name}", numbers[name], _BEYOND) for name in beyond]
    if "availableReplicas" in part_of_replicas and numbers["availableReplicas"] > numbers["readyReplicas"]:
        text = "cannot be greater than readyReplicas"
        found.append(invalid("status.availableReplicas", numbers["availableReplicas"], text))
    return found


def load_balancer(obj: Manifest) -> list[FieldError]:
    """Return what is wrong with the load balancer addresses of a status."""
    found: list[FieldError] = []
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    for index, ingress in enumerate(balancer.get("ingress") or ()):
        field, ip, host = f"status.loadBalancer.ingress[{index}]", ingress.get("ip", ""), ingress.get("hostname", "")
        if ip and _parsed(ip) is None:
            found.append(invalid(f"{field}.ip", ip, "must be a valid IP address"))
        if host:
            found += [invalid(f"{field}.hostname", host, text) for text in names.subdomain(host)]
            if _parsed(host) is not None:
                found.append(invalid(f"{field}.hostname", host, "must be a DNS name, not an IP address"))
    return found


def non_special(value: str, field: str) -> list[FieldError]:
    """Return what keeps an address from being one that others can reach."""
    found = _parsed(value)
    if found is None:
        return [invalid(field, value, "must be a valid IP address")]
    errors = [invalid(field, value, text) for name, text in _SPECIAL if getattr(found, name)]
    if any(found in network for network in _LINK_MULTICAST):
        errors.append(invalid(field, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
    return errors


def is_network(value: str) -> bool:
    """Return whether the value is a range of addresses: an address, a slash and a number of bits."""
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return value.rpartition("/")[2].isdigit() and "/" in value


def _parsed(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None

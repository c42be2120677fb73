"""Checks of writes to status: counts of replicas, addresses of load balancers, addresses that are for no endpoint."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, required, too_long
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    choice,
    each,
    formed,
    inside,
    needed,
    not_negative,
    number,
    text,
    unique,
    valid,
)

_SPECIAL: Final = (
    ("is_unspecified", "may not be unspecified (0.0.0.0 or ::)"),
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
)
_LINK_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def counts(fields: tuple[str, ...], part_of_replicas: tuple[str, ...] = ()) -> Rules:
    """Rules of the numbers of a status; those of `part_of_replicas` are at most `replicas`."""

    def parts(status: Manifest, path: str) -> list[FieldError]:
        numbers = {name: status.get(name) or 0 for name in (*part_of_replicas, "replicas", "readyReplicas")}
        beyond = [name for name in part_of_replicas if numbers[name] > numbers["replicas"]]
        found = [invalid(f"{path}.{name}", numbers[name], "cannot be greater than status.replicas") for name in beyond]
        if "availableReplicas" in part_of_replicas and numbers["availableReplicas"] > numbers["readyReplicas"]:
            text = "cannot be greater than readyReplicas"
            found.append(invalid(f"{path}.availableReplicas", numbers["availableReplicas"], text))
        return found

    return (not_negative(*fields), parts)


_LONGEST_REASON: Final = 1024
_LONGEST_MESSAGE: Final = 32768
_is_reason = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?").fullmatch


def _reason(condition: Manifest, path: str) -> Errors:
    reason, field = condition.get("reason", ""), f"{path}.reason"
    if not reason:
        yield required(field, "must be set")
    elif not _is_reason(reason):
        text = "a condition reason must start with alphabetic character, optionally followed by a string of "
        yield invalid(field, reason, f"{text}alphanumeric characters or '_,:', and must end with one of them or '_'")
    if len(reason) > _LONGEST_REASON:
        yield too_long(field, reason, _LONGEST_REASON)
    if len(message := condition.get("message", "")) > _LONGEST_MESSAGE:
        yield too_long(f"{path}.message", message, _LONGEST_MESSAGE)


STATES: Final = choice("status", ("False", "True", "Unknown"), blank=True)
"""Rule of a condition: it holds, it does not, or that is not known."""
CONDITIONS: Final = each(
    "conditions",
    text("type", names.qualified, blank=True),
    unique("type"),
    STATES,
    number("observedGeneration", 0),
    needed("lastTransitionTime", detail="must be set"),
    _reason,
)
"""Rule of a status: its conditions are those that Kubernetes describes for all kinds (meta/v1)."""


def parsed(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a text is; None when it is none."""
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


address = valid(parsed, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
_NO_IP = valid(lambda value: not parsed(value), "must be a DNS name, not an IP address")
_INGRESS = each(
    "ingress",
    inside("ip", valid(lambda value: not value or parsed(value), "must be a valid IP address")),
    inside("hostname", formed(names.subdomain), _NO_IP),
)
LOAD_BALANCER = (inside("loadBalancer", _INGRESS),)


def non_special(value: str, field: str) -> Errors:
    """Yield what keeps an address from being one that others can reach."""
    found = parsed(value)
    if found is None:
        yield invalid(field, value, "must be a valid IP address")
        return
    yield from (invalid(field, value, text) for name, text in _SPECIAL if getattr(found, name))
    if any(found in network for network in _LINK_MULTICAST):
        yield invalid(field, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def is_plain_network(value: str) -> bool:
    """Return whether the value is a range of addresses in its only spelling: no bit of a host is set."""
    try:
        return str(ipaddress.ip_network(value)) == value
    except ValueError:
        return False


def is_network(value: str) -> bool:
    """Return whether the value is a range of addresses: an address, a slash and a number of bits."""
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return value.rpartition("/")[2].isdigit() and "/" in value

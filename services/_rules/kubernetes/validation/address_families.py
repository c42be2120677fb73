"""Addresses of a Service: how its cluster IPs, their families and the policy of families go together."""

from __future__ import annotations

import ipaddress
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    go_strings,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import apply, choice
from services._rules.kubernetes.validation.status_fields import address, parsed

HEADLESS: Final = "None"
"""The cluster IP of a Service that has none."""
FAMILIES: Final = ("IPv4", "IPv6")
_DUAL: Final = "RequireDualStack"
_POLICY: Final = choice("ipFamilyPolicy", ("PreferDualStack", _DUAL, "SingleStack"), blank=False)


def family(ip: str) -> str:
    """Return the family of an address; empty for a text that is none."""
    found = parsed(ip)
    return f"IPv{found.version}" if found else ""


def cluster_addresses(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with cluster IPs, families and policy of a Service that has cluster IPs."""
    if spec.get("type") == "ExternalName":
        return []
    found = [*_paired(spec, path), *_families(spec, path), *apply((_POLICY,), spec, path)]
    ips, field = spec.get("clusterIPs") or [], f"{path}.clusterIPs"
    broken: list[FieldError] = []
    for index, ip in enumerate(ips):
        if ip != HEADLESS or index:
            broken += address(ip, f"{field}[{index}]")
        elif len(ips) > 1:
            broken.append(invalid(field, go_strings(ips), "'None' must be the first and only value"))
    found += broken
    if len(ips) > 2:
        found.append(invalid(field, go_strings(ips), "may only hold up to 2 values"))
    if broken:
        return found
    if len(ips) > 1 and len({family(ip) for ip in ips}) != 2:
        found.append(invalid(field, go_strings(ips), "may specify no more than one IP for each IP family"))
    if not found and ips[:1] != [HEADLESS]:
        for index, (ip, wanted) in enumerate(zip(ips, spec.get("ipFamilies") or (), strict=False)):
            if family(ip) != wanted:
                text = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
                found.append(invalid(f"{field}[{index}]", ip, text))
    return found


def _paired(spec: Manifest, path: str) -> Errors:
    ip, ips, field = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], f"{path}.clusterIPs"
    if ip and not ips:
        yield required(field)
    elif ip and ips[0] != ip:
        yield invalid(field, go_strings(ips), "first value must match `clusterIP`")
    elif ips and not ip:
        yield invalid(field, go_strings(ips), "must be empty when `clusterIP` is not specified")


def _families(spec: Manifest, path: str) -> Errors:
    seen: set[str] = set()
    for index, name in enumerate(spec.get("ipFamilies") or ()):
        field = f"{path}.ipFamilies[{index}]"
        if name not in FAMILIES:
            yield not_supported(field, name, FAMILIES)
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)


def settle_families(spec: Manifest, served: str, path: str = "spec") -> list[FieldError]:
    """Fill families and their policy into a Service of a cluster that serves one family; return what it cannot have.

    The cluster IPs that the Service names decide first, then the families that it asks for, then what is served.
    """
    if spec.get("type") == "ExternalName":
        return []
    if found := cluster_addresses(spec, path):
        return found
    families = list(spec.get("ipFamilies") or ())
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip == HEADLESS or index < len(families):
            continue
        if family(ip) != served:
            text = f"{family(ip)} is not configured on this cluster"
            found.append(invalid(f"{path}.clusterIPs[{index}]", go_strings(spec["clusterIPs"]), text))
        families.append(family(ip))
    policy = spec.get("ipFamilyPolicy")
    for name, count in (("clusterIPs", len(spec.get("clusterIPs") or ())), ("ipFamilies", len(families))):
        if not found and count > 1 and policy == "SingleStack":
            text = f"may only hold 1 value when `ipFamilyPolicy` is {policy}: `{name}` has {count}"
            found.append(invalid(f"{path}.ipFamilyPolicy", policy, text))
    if found:
        return found
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        # Its addresses come from elsewhere, and may be of families that the cluster does not serve.
        spec["ipFamilyPolicy"] = policy or _DUAL
        spec["ipFamilies"] = families or [served]
        if spec["ipFamilyPolicy"] != "SingleStack":
            spec["ipFamilies"] += [one for one in FAMILIES if one not in spec["ipFamilies"]]
        return []
    if policy == _DUAL:
        found.append(
            invalid(f"{path}.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
        )
    for index, name in enumerate(families):
        if name != served:
            found.append(invalid(f"{path}.ipFamilies[{index}]", name, "not configured on this cluster"))
    if not found:
        spec["ipFamilies"] = families or [served]
        spec["ipFamilyPolicy"] = policy or "SingleStack"
    return found


def warnings(spec: Manifest) -> list[str]:
    """Return what a client is told of the addresses of a Service that are taken and better written otherwise."""
    found = _unusual(spec, "clusterIPs")
    external = spec.get("externalIPs") or ()
    if spec.get("clusterIP") == HEADLESS:
        ignored = 'is ignored when spec.clusterIP is "None"'
        if spec.get("loadBalancerIP"):
            found.append(f"spec.loadBalancerIP {ignored}")
        if external:
            found.append(f"spec.externalIPs {ignored}")
        if spec.get("sessionAffinity", HEADLESS) != HEADLESS:
            found.append("spec.SessionAffinity is ignored for headless services")
    if external:
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    found += _unusual(spec, "externalIPs")
    for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        given = ipaddress.ip_interface(value.strip())
        if given.ip != given.network.network_address:
            own = f"{given.ip}/{given.max_prefixlen}"
            choices = f'(should be "{given.network}" or "{own}"?)'
            place = f"spec.loadBalancerSourceRanges[{index}]"
            found.append(f'{place}: CIDR value "{value}" is ambiguous in this context {choices}')
    if spec.get("type") == "ExternalName" and external:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    return found


def _unusual(spec: Manifest, name: str) -> list[str]:
    found = []
    for index, ip in enumerate(spec.get(name) or ()):
        known = parsed(ip)
        if known is not None and known.version == 6 and str(known) != ip:
            canonical = f'should be in RFC 5952 canonical format ("{known}")'
            found.append(f'spec.{name}[{index}]: IPv6 address "{ip}" {canonical}')
    return found

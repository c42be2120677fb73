"""The addresses and ports behind Services: EndpointSlices and Endpoints."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, required, too_many
from services._rules.kubernetes.validation.field_rules import (
    Check,
    choice,
    each,
    formed,
    inside,
    needed,
    number,
    text,
    unique,
)
from services._rules.kubernetes.validation.status_fields import address, non_special, parsed
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.containers import PROTOCOLS

_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 100, 8


def _number(family: str) -> Check:
    """An address of a family."""

    def check(value: str, field: str) -> list[FieldError]:
        good = parsed(value) is not None and (":" in value) == (family == "IPv6")
        return [] if good else [invalid(field, value, f"must be a valid {family} address")]

    return check


def _domain(value: str, field: str) -> list[FieldError]:
    """A domain name of two segments or more, which may end with a dot."""
    if not value:
        return [required(field)]
    name = value.removesuffix(".")
    if texts := names.subdomain(name):
        return [invalid(field, name, ",".join(texts))]
    if "." not in name:
        return [invalid(field, name, "should be a domain with at least two segments separated by dots")]
    return [invalid(field, part, ",".join(texts)) for part in name.split(".") if (texts := names.label(part))]


def _no_check(_: str, __: str) -> list[FieldError]:
    return []


_ADDRESS_TYPES: dict[str, Check] = {"FQDN": _domain, "IPv4": _number("IPv4"), "IPv6": _number("IPv6")}


def _bounded(name: str, most: int, *rules: Any) -> Check:
    """Rules of the items of a list of limited length; a longer one is not looked into."""
    items = each(name, *rules)

    def check(value: Manifest, path: str) -> list[FieldError]:
        length = len(value.get(name) or ())
        field = f"{path}.{name}" if path else name
        return [too_many(field, length, most)] if length > most else items(value, path)

    return check


_HINTS = (
    _bounded("forZones", _MOST_HINTS, unique("name", blank=True), inside("name", formed(names.label_value))),
    _bounded("forNodes", _MOST_HINTS, unique("name", blank=True), inside("name", formed(names.subdomain), absent="")),
)


def _endpoints(obj: Manifest, path: str) -> list[FieldError]:
    """Check the endpoints by the type of their addresses."""
    address_check = _ADDRESS_TYPES.get(obj.get("addressType", ""), _no_check)
    rules = (
        needed("addresses", detail="must contain at least 1 address"),
        _bounded("addresses", _MOST_ADDRESSES, address_check),
        inside("nodeName", formed(names.subdomain)),
        inside("hostname", formed(names.label)),
        inside("hints", *_HINTS),
    )
    return list(_bounded("endpoints", _MOST_ENDPOINTS, *rules)(obj, path))


_SLICE_PORT = (
    text("name", names.label),
    unique("name", blank=True),
    choice("protocol", PROTOCOLS, blank=True),
    inside("appProtocol", formed(names.qualified)),
)


def _unreachable(obj: Manifest) -> list[FieldError]:
    if obj.get("addressType") == "FQDN":
        return []
    return each("endpoints", each("addresses", non_special))(obj, "")


class EndpointSlice(BuiltinKind):
    """discovery.k8s.io/v1 EndpointSlice."""

    generation = True
    defaults = {"ports[]": {"name": "", "protocol": "TCP"}}
    rules = (
        choice("addressType", tuple(_ADDRESS_TYPES), need=""),
        _endpoints,
        _bounded("ports", _MOST_PORTS, *_SLICE_PORT),
    )
    fixed = ("addressType",)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Refuse addresses that others cannot reach."""
        return super().check(obj) or _unreachable(obj)

    def prepare_create(self, obj: Manifest) -> None:
        """The topology map of an earlier version is not written."""
        super().prepare_create(obj)
        self._without_topology(obj, [])

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Nor is another one than there was."""
        super().prepare_update(new, old)
        self._without_topology(new, _topologies(old))

    @staticmethod
    def _without_topology(obj: Manifest, before: list[Any]) -> None:
        if _topologies(obj) == before:
            return
        for item in obj.get("endpoints") or ():
            item.pop("deprecatedTopology", None)


def _topologies(obj: Manifest) -> list[Any]:
    return [item.get("deprecatedTopology") for item in obj.get("endpoints") or ()]


def _some_address(subset: Manifest, field: str) -> Errors:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(field, "must specify `addresses` or `notReadyAddresses`")


_ADDRESS = (
    inside("ip", address, absent=""),
    text("hostname", names.label),
    inside("nodeName", formed(names.subdomain)),
    inside("ip", non_special, absent=""),
)
_ENDPOINT_NUMBER = (
    number("port", 1, 65535, absent=0),
    choice("protocol", PROTOCOLS, blank=True),
    inside("appProtocol", formed(names.qualified)),
)
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

"""Endpoints: the addresses and ports behind a Service."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, required
from services._rules.kubernetes.validation.field_rules import choice, each, inside, number, text
from services._rules.kubernetes.validation.status_fields import address, non_special
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.containers import PROTOCOLS


def _some_address(subset: Manifest, field: str) -> list[FieldError]:
    if subset.get("addresses") or subset.get("notReadyAddresses"):
        return []
    return [required(field, "must specify `addresses` or `notReadyAddresses`")]


_ADDRESS = (
    inside("ip", address, absent=""),
    text("hostname", names.label),
    text("nodeName", names.subdomain),
    inside("ip", non_special, absent=""),
)
_NUMBER = (number("port", 1, 65535, absent=0), choice("protocol", PROTOCOLS, blank=True))
_ONE_PORT = each("ports", text("name", names.label), *_NUMBER)
_PORTS = each("ports", text("name", names.label, need=""), *_NUMBER)


def _ports(subset: Manifest, field: str) -> list[FieldError]:
    return (_PORTS if len(subset.get("ports") or ()) > 1 else _ONE_PORT)(subset, field)


class Endpoints(BuiltinKind):
    """core/v1 Endpoints."""

    create_on_update = True
    defaults = {"subsets[]": {"ports[]": {"protocol": "TCP"}}}
    rules = (
        each("subsets", _some_address, each("addresses", *_ADDRESS), each("notReadyAddresses", *_ADDRESS), _ports),
    )
